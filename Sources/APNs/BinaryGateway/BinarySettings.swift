/// What the binary interface needs beyond ``GatewaySettings``. The defaults are those of `docs/apns.md`.
package struct BinarySettings: Sendable {
    /// After so long without an error a notification is delivered. An error that comes later finds an outcome that stands.
    package var grace = Duration.seconds(2)
    /// Notifications of a connection whose grace has not passed, at most. With the grace it bounds what a connection sends: 2,500
    /// a second. After an error all that was sent behind the one at fault is sent again, so that it shrinks while errors come.
    package var windowSize = 5000
    /// The least time from opening one connection to opening the next. Every error ends a connection, and Apple's servers took
    /// connections in quick succession for an attack (Apple archive, TN2265).
    package var openingInterval = Duration.milliseconds(100)
    /// The form in which notifications are written.
    package var command = BinaryCommand.framed

    package init() {}

    /// How many pushes there may be in the window of one that was lost so often before. When a connection ends without saying whose fault it
    /// was, everything in its window is lost with the one at fault; after the fourth time that one is alone.
    func company(ofPushLost losses: Int) -> Int {
        guard losses > 0 else { return .max }
        return losses >= 4 ? 1 : (0..<losses).reduce(windowSize) { size, _ in max(1, size / 10) }
    }
}
