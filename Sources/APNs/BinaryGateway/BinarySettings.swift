/// The settings that the binary interface needs beyond ``GatewaySettings``. The defaults are those of `docs/apns.md`.
package struct BinarySettings: Sendable {
    /// A notification counts as delivered after this time without an error. An error that comes later does not change
    /// the outcome.
    package var grace = Duration.seconds(2)
    /// The maximum number of notifications of a connection whose grace has not passed. Together with the grace, it
    /// limits a connection to 2,500 pushes a second. After an error, everything behind the notification at fault is
    /// sent again, so the window shrinks while errors are frequent.
    package var windowSize = 5000
    /// The minimum time between opening two connections. Every error ends a connection, and Apple's servers considered
    /// connections in quick succession an attack (Apple archive, TN2265).
    package var openingInterval = Duration.milliseconds(100)
    /// The form in which notifications are written.
    package var command = BinaryCommand.framed

    package init() {}

    /// Returns the maximum size of a window that contains a push that was lost this often before.
    func inFlightLimit(besidePushLost losses: Int) -> Int { LossIsolation.limit(ofPushLost: losses, full: windowSize) }
}
