/// `apns-expiration`: how long APNs stores the push for a device that it cannot reach. There are three states, because
/// 0 is a value.
package enum Expiration: Hashable, Sendable {
    /// No header: APNs stores the push as long as it likes (30 days at most).
    case apnsDefault
    /// `0`: one attempt at delivery; the push is never stored.
    case oneAttempt
    /// Seconds since 1970, UTC.
    case until(Int64)

    /// The header's value; nil: no header.
    package var headerValue: String? {
        switch self {
        case .apnsDefault: nil
        case .oneAttempt: "0"
        case .until(let seconds): String(seconds)
        }
    }
}
