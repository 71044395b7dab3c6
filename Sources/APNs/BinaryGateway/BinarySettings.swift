/// What the binary interface needs beyond ``GatewaySettings``. The defaults are those of `docs/apns.md`.
package struct BinarySettings: Sendable {
    /// After so long without an error a notification is delivered. An error that comes later finds an outcome that stands.
    package var grace = Duration.seconds(2)
    /// Notifications of a connection whose grace has not passed, at most. With the grace it bounds what a connection sends: 2,500
    /// a second. After an error all that was sent behind the one at fault is sent again.
    package var windowSize = 5000
    /// The form in which notifications are written.
    package var command = BinaryCommand.framed

    package init() {}
}
