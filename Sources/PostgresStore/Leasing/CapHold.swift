/// How long a frequency cap holds back a recipient that may not be sent to now.
package enum CapHold: Equatable, Sendable {
    /// The recipient is checked again after this time, when the pushes in flight to its device, whose cap is nearly
    /// reached, have arrived or not.
    case until(Duration)
    /// The recipient must not be sent to: its device has had as many pushes as a cap allows.
    case forGood

    /// What a cap answers if another transaction keeps the device's places. It also answers so if a push to the device
    /// is not older than a second and in flight.
    package static let whileKept = CapHold.until(.seconds(1))
}
