package import HTTP1
package import PostgresStore

/// The reason why a webhook did not accept a message, apart from problems that keep the client from sending it.
package enum WebhookProblem: Error, Equatable, CustomStringConvertible {
    /// The text in the database is not a valid URL.
    case url(WebAddressFault)
    case secret(SealError)
    case damagedSecret
    case redirected(Int)
    case refused(Int)

    /// Returns nil if the status says that the message was accepted.
    package init?(status: Int) {
        switch status {
        case 200...299: return nil
        case 300...399: self = .redirected(status)
        default: self = .refused(status)
        }
    }

    package var description: String {
        switch self {
        case .url(let fault): "its URL \(fault)"
        case .secret(let error): "its secret does not open: \(error)"
        case .damagedSecret: "its secret is not a valid webhook secret; set a new one"
        case .redirected(let status): "it answered \(status), but redirects are not followed: set the URL of the target"
        case .refused(let status): "it answered \(status)"
        }
    }
}
