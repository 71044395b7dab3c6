/// How long quiet hours hold back a recipient.
package enum QuietHold: Equatable, Sendable {
    /// The recipient is checked again at this time, in microseconds since 1970, when its quiet hours have ended. It is
    /// a time of the database's clock, which may be set until the worker writes it.
    case until(Int64)
    /// The recipient must not be sent to: the push would be too late after its quiet hours.
    case forGood
}
