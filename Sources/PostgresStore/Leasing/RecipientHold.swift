/// What becomes of a recipient that may not be sent to now.
package enum RecipientHold: Equatable, Sendable {
    /// It may be sent to after this time, or is asked about again then: when its quiet hours have ended, or when what
    /// is on its way to a device whose cap is nearly reached has arrived or not.
    case until(Duration)
    /// It must not be sent to: its device has had as many pushes as a cap allows, or when its quiet hours have ended it
    /// would be too late.
    case forGood
}
