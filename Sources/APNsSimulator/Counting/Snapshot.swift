/// The counts of a simulator so far. It is printed as JSON.
package struct Snapshot: Sendable, Equatable, Encodable {
    /// Requests received.
    package var arrived = 0
    /// Different `apns-id`s among them.
    package var distinct = 0
    /// Arrivals whose `apns-id` had already got a final answer, or whose earlier arrival's answer was never written.
    package var repeated = 0
    /// Requests accepted (status 200).
    package var accepted = 0
    /// Requests refused, by reason.
    package var refused: [String: Int] = [:]
    /// Different `apns-id`s that have got a final answer: accepted, or refused for good.
    package var answeredFinally = 0
    /// Requests left without an answer on purpose, by a rule.
    package var silenced = 0
    /// Requests whose stream or connection ended before their answer.
    package var abandoned = 0
    /// Requests whose answer is not due yet.
    package var waiting = 0
    /// Streams that clients opened beyond SETTINGS_MAX_CONCURRENT_STREAMS. Each was refused (REFUSED_STREAM), and does
    /// not count as a request.
    package var excessStreams = 0
    /// Requests by topic.
    package var topics: [String: Int] = [:]
    /// Requests by second. The first element is for `firstSecond` (seconds since 1970).
    package var perSecond: [Int] = []
    package var firstSecond = 0
    /// When the first and the last request came, in microseconds since 1970; 0 before.
    package var firstArrival = 0
    package var lastArrival = 0
    /// Connections accepted so far, open now, and refused in the handshake.
    package var connections = 0
    package var openConnections = 0
    package var failedHandshakes = 0
    /// Successful handshakes on all its ports: with certificates, and those that resumed an earlier session.
    package var fullHandshakes = 0
    package var resumedHandshakes = 0
    /// Different provider tokens that came, valid or not; 1,024 at most.
    package var providerTokens = 0
    /// Whether the record, if there is one, is complete; false after a write to its file has failed.
    package var isRecordComplete = true

    package init() {}

    enum CodingKeys: String, CodingKey {
        case arrived, distinct, repeated, accepted, refused
        case answeredFinally = "answered_finally"
        case silenced, abandoned, waiting, topics
        case excessStreams = "excess_streams"
        case perSecond = "per_second"
        case firstSecond = "first_second"
        case firstArrival = "first_arrival_us"
        case lastArrival = "last_arrival_us"
        case connections
        case openConnections = "open_connections"
        case failedHandshakes = "failed_handshakes"
        case fullHandshakes = "full_handshakes"
        case resumedHandshakes = "resumed_handshakes"
        case providerTokens = "provider_tokens"
        case isRecordComplete = "record_complete"
    }

    /// How many requests were answered, accepted or refused.
    package var answered: Int { accepted + refused.values.reduce(0, +) }
}
