/// What becomes of a recipient that has quiet hours.
package enum QuietHold: Equatable, Sendable {
    /// It is sent to after this time, when they have ended.
    case until(Duration)
    /// It must not be sent any more when they have ended.
    case forGood
}
