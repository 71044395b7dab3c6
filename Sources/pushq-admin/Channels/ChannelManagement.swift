import APNs
import PostgresStore
import QueueCore
import Terminal
import Transport
import Workers

/// How commands about channels connect to Apple.
struct ChannelManagement: ParameterGroup {
    @Option("Ask this address instead of Apple: a simulator.") var management: HostAndPort?
    @Option("A PEM file with certificate authorities to trust for --management, in addition to the system's.", "FILE")
    var ca: InputFile?

    /// Runs `body` with a client for the queue's app that uses the queue's credential.
    ///
    /// - Throws: ``Failure`` if the queue has no usable credential, or APNs refuses.
    func withClient<Success: Sendable>(
        of queue: QueueName, _ database: DatabaseOptions, _ console: Console,
        _ body: @Sendable (ChannelClient) async throws -> Success
    ) async throws -> Success {
        let endpoint = try endpoint(queue.environment)
        let masterKeys = try MasterKeySetting().keys(console.warn)
        let address = try database.address
        let settings = try await database.session { store in try await store.queueSettings(named: queue) }
        guard let credential = settings?.credential else {
            throw Failure(MissingCredential(queue: queue.description).description)
        }
        let loop = EventLoop(name: "channels")
        defer { loop.shutDownAndWait() }
        do {
            return try await loop.run { _ in
                let opened = try await HTTP2Gateway.Credential.opening(
                    credential, under: masterKeys, over: address, on: loop)
                let client = ChannelClient(app: queue.app, endpoint: endpoint, credential: opened, loop: loop)
                defer { client.close() }
                return try await body(client)
            }
        } catch let error as ChannelError {
            throw Failure(error.description)
        }
    }

    private func endpoint(_ environment: Environment) throws -> Endpoint {
        guard ca == nil || management != nil else { throw UsageError("--ca needs --management") }
        guard let management else { return Endpoint(channelsOf: environment) }
        return Endpoint(host: management.host, port: management.port, authorities: try ca?.authorities())
    }
}

extension ChannelClient {
    /// Returns what APNs stores of a channel's messages; nil if Apple does not know the channel.
    func policyIfKnown(of channel: ChannelID) async throws -> ChannelPolicy? {
        do {
            return try await policy(of: channel)
        } catch .refused(_, let reason, _) where reason.broadcastAction == .retireChannel {
            return nil
        }
    }
}
