/// How long a recipient that may not be sent to now is held back.
package enum RecipientHold: Equatable, Sendable {
    /// The recipient may be sent to, or is checked again, after this time: when its quiet hours have ended, or when the
    /// pushes in flight to a device whose cap is nearly reached have arrived or not.
    case until(Duration)
    /// The recipient must not be sent to: its device has had as many pushes as a cap allows, or the push would be too
    /// late after its quiet hours.
    case forGood

    /// What a cap answers if another transaction keeps the device's places. It also answers so if a push to the device
    /// is not older than a second and in flight.
    package static let whileKept = RecipientHold.until(.seconds(1))
}
