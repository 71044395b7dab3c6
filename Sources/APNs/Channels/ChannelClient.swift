import Cryptography
import FoundationEssentials
import HTTP2
package import QueueCore
package import Transport

/// Creates, reads, lists and deletes the channels of an app (Apple: "Sending channel management requests to APNs").
///
/// Belongs to its loop. It connects with the first request. The owner closes it.
package final class ChannelClient {
    /// The time for looking up the name, connecting, the TLS handshake and the first SETTINGS together.
    private static let connectTime = Duration.seconds(30)

    private let app: String
    private let endpoint: Endpoint
    private let identity: TLSIdentity?
    private let token: ProviderToken?
    private let loop: EventLoop
    private let patience: Duration
    private var connection: RequestConnection?

    /// - Parameters:
    ///   - app: the bundle ID.
    ///   - patience: how long an answer may take.
    package init(
        app: String, endpoint: Endpoint, credential: HTTP2Gateway.Credential, loop: EventLoop,
        patience: Duration = .seconds(30)
    ) {
        self.app = app
        self.endpoint = endpoint
        self.loop = loop
        self.patience = patience
        (token, identity) =
            switch credential {
            case .token(let token): (token, nil)
            case .certificate(let identity): (nil, identity)
            }
    }

    // MARK: Channels

    private struct Configuration: Codable {
        var policy: Int16
        /// Spelt differently from the header `apns-push-type`.
        var pushType = "LiveActivity"

        enum CodingKeys: String, CodingKey {
            case policy = "message-storage-policy"
            case pushType = "push-type"
        }
    }

    private struct List: Decodable {
        var channels: [String]
    }

    /// Creates a channel. Apple allows 10,000 for an app in an environment.
    package func create(_ policy: ChannelPolicy) async throws(ChannelError) -> ChannelID {
        let body = Array((try? JSONEncoder().encode(Configuration(policy: policy.rawValue))) ?? Data())
        let response = try await response("POST", "channels", body: body)
        guard let text = response.channelID, let id = try? ChannelID(text) else {
            throw .unsure("APNs answered \(response.status) without the ID of the channel")
        }
        return id
    }

    /// Returns which of a channel's messages APNs stores.
    package func policy(of channel: ChannelID) async throws(ChannelError) -> ChannelPolicy {
        let response = try await response("GET", "channels", channel)
        guard let configuration = try? JSONDecoder().decode(Configuration.self, from: Data(response.body)),
            let policy = ChannelPolicy(rawValue: configuration.policy)
        else { throw .unreadable(status: response.status) }
        return policy
    }

    /// Deletes a channel for good. Messages that APNs has stored for it may still be delivered.
    package func delete(_ channel: ChannelID) async throws(ChannelError) {
        _ = try await response("DELETE", "channels", channel)
    }

    /// Returns all channels of the app in this environment, and the listed entries that are not valid channel IDs.
    package func all() async throws(ChannelError) -> (channels: [ChannelID], unreadable: [String]) {
        let response = try await response("GET", "all-channels")
        guard let list = try? JSONDecoder().decode(List.self, from: Data(response.body)) else {
            throw .unreadable(status: response.status)
        }
        let channels = list.channels.compactMap { try? ChannelID($0) }
        let unreadable = list.channels.filter { (try? ChannelID($0)) == nil }.map { $0.printable(upTo: 100) }
        return (channels, unreadable)
    }

    /// Closes the connection.
    package func close() {
        connection?.close()
        connection = nil
    }

    // MARK: Requests

    /// Returns the answer to a request. Throws `refused` unless its status is a success.
    private func response(
        _ method: String, _ what: String, _ channel: ChannelID? = nil, body: [UInt8] = []
    ) async throws(ChannelError) -> RequestConnection.Response {
        let isKept = connection?.isUsable == true
        let response: RequestConnection.Response
        do {
            response = try await answer(method, what, channel, body)
        } catch .lost where isKept && method == "GET" {
            // The server was closing the kept connection. Repeating a GET does no harm.
            response = try await answer(method, what, channel, body)
        }
        guard (200..<300).contains(response.status) else {
            let text = RefusalBody(response.body).reason
            throw .refused(status: response.status, Reason(status: response.status, text: text), text: text)
        }
        return response
    }

    private func answer(
        _ method: String, _ what: String, _ channel: ChannelID?, _ body: [UInt8]
    ) async throws(ChannelError) -> RequestConnection.Response {
        let connection = try await usableConnection()
        do {
            return try await connection.response(
                to: headers(method), path: Array("/1/apps/\(app)/\(what)".utf8), channelID: channel?.text, body: body,
                until: loop.now + patience)
        } catch {
            throw method == "POST" ? error.ofCreation : error
        }
    }

    private func usableConnection() async throws(ChannelError) -> RequestConnection {
        if let connection, connection.isUsable { return connection }
        close()
        let new = try await RequestConnection.open(
            to: endpoint, identity: identity, loop: loop, until: loop.now + Self.connectTime)
        connection = new
        return new
    }

    private func headers(_ method: String) -> PreparedHeaders {
        var fields = [
            PreparedHeaders.Field(":method", method), PreparedHeaders.Field(":scheme", "https"),
            PreparedHeaders.Field(":authority", endpoint.authority),
        ]
        if let token { fields.append(PreparedHeaders.Field("authorization", token.authorization)) }
        return PreparedHeaders(fields)
    }
}
