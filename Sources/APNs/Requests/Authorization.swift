import HTTP2
import QueueCore
import Synchronization

/// How a gateway currently identifies itself to the server, and the prepared fields that follow from it. The next
/// provider token replaces the whole object.
final class Authorization {
    /// The maximum number of kinds of push that are remembered; a gateway for one app has a handful.
    private static let maximumKinds = 512
    private static let numbers = Atomic<UInt64>(0)

    /// Unique in a process.
    let number: UInt64
    private let authority: String
    private let token: ProviderToken?
    private var prepared: [PushKind: PreparedHeaders] = [:]

    /// - Parameter token: nil on connections that are authenticated by a certificate.
    init(authority: String, token: ProviderToken?) {
        self.authority = authority
        self.token = token
        number = Self.numbers.add(1, ordering: .relaxed).newValue
    }

    /// Returns the fields that all messages of a kind share.
    func headers(for kind: PushKind) -> PreparedHeaders {
        if let known = prepared[kind] { return known }
        if prepared.count >= Self.maximumKinds { prepared.removeAll(keepingCapacity: true) }
        let headers = PreparedHeaders(fields(for: kind))
        prepared[kind] = headers
        return headers
    }

    /// Returns the fields for which Apple advises incremental indexing. The token is one of them: it is valid for an
    /// hour on this connection, and would otherwise cost 200 bytes a request.
    private func fields(for kind: PushKind) -> [PreparedHeaders.Field] {
        var fields = [
            PreparedHeaders.Field(":method", "POST"),
            PreparedHeaders.Field(":scheme", "https"),
            PreparedHeaders.Field(":authority", authority),
        ]
        if let token { fields.append(PreparedHeaders.Field("authorization", token.authorization)) }
        if let topic = kind.topic { fields.append(PreparedHeaders.Field("apns-topic", topic)) }
        fields.append(PreparedHeaders.Field("apns-push-type", kind.pushType.rawValue))
        if let priority = kind.priority {
            fields.append(PreparedHeaders.Field("apns-priority", String(priority.rawValue)))
        }
        return fields
    }
}
