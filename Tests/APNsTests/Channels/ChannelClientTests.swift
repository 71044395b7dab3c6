import APNsSimulator
import Cryptography
import Foundation
import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(10))) struct `A client for channels` {
    /// Runs a test with a client of a simulator that allows an app `limit` channels.
    private func withClient(
        limit: Int = 10, usesCertificate: Bool = false, app: String = "com.example.App",
        _ body: @escaping @Sendable (ChannelClient, Simulator) async throws -> Void
    ) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "channels-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var configuration = SimulatorConfiguration(folder: folder)
        configuration.managementPort = 0
        configuration.channelLimit = limit
        let simulator = try await Simulator.start(configuration)
        let loop = EventLoop(name: "channel-client")
        defer { loop.shutDown() }
        let outcome: Result<Void, any Error>
        do {
            try await loop.run { _ in
                let credential: HTTP2Gateway.Credential =
                    if usesCertificate {
                        .certificate(try simulator.authority.clientCertificate(topic: "com.example.App").identity)
                    } else {
                        .token(
                            try .mint(
                                key: simulator.authority.signingKey, keyID: TestAuthority.keyID,
                                teamID: TestAuthority.teamID, now: Int64(Date.now.timeIntervalSince1970)))
                    }
                let trust = try TrustStore(adding: [simulator.authority.certificate])
                let endpoint = Endpoint(host: "127.0.0.1", port: simulator.managementPort ?? 0, authorities: trust)
                let client = ChannelClient(app: app, endpoint: endpoint, credential: credential, loop: loop)
                try await body(client, simulator)
                client.close()
            }
            outcome = .success(())
        } catch {
            outcome = .failure(error)
        }
        await simulator.stop()
        try outcome.get()
    }

    private func refusal(_ call: () async throws -> Void) async -> Reason? {
        do {
            try await call()
            return nil
        } catch {
            guard case .refused(_, let reason, _) = error as? ChannelError else { return nil }
            return reason
        }
    }

    @Test(arguments: [false, true])
    func `creates, reads, lists and deletes them, with a token or a certificate`(usesCertificate: Bool) async throws {
        try await withClient(usesCertificate: usesCertificate) { client, _ in
            let quiet = try await client.create(.none)
            let kept = try await client.create(.latest)
            let policies = [try await client.policy(of: quiet), try await client.policy(of: kept)]
            #expect(policies == [.none, .latest])
            let both = try await client.all().channels
            #expect(Set(both) == [quiet, kept])
            try await client.delete(quiet)
            let left = try await client.all().channels
            #expect(left == [kept])
            let gone = await refusal { _ = try await client.policy(of: quiet) }
            #expect(gone == .named("ChannelNotRegistered"))
        }
    }

    @Test func `is told that the app has as many as Apple allows, and asks once`() async throws {
        try await withClient(limit: 2) { client, _ in
            _ = try await client.create(.none)
            let second = try await client.create(.none)
            let error = await #expect(throws: ChannelError.self) { _ = try await client.create(.none) }
            #expect(error?.description.contains("CannotCreateChannelConfig: the app has as many channels") == true)
            try await client.delete(second)
            _ = try await client.create(.none)
        }
    }

    @Test func `is told of a bundle ID with a suffix`() async throws {
        try await withClient(app: "com.example.App.push-type.liveactivity") { client, _ in
            let refusal = await refusal { _ = try await client.all() }
            #expect(refusal == .named("TopicDisallowed"))
        }
    }

    @Test func `connects again when the server has closed meanwhile`() async throws {
        try await MockServer.run { request in
            request.answer(body: #"{"channels":["YQ=="]}"#)
            request.firstConnection?.stream.close()
        } with: { client in
            for _ in 1...2 {
                let channels = try await client.all().channels.map(\.text)
                #expect(channels == ["YQ=="])
            }
        }
    }

    @Test func `says what the server said when it ended the connection instead of answering`() async throws {
        try await MockServer.run { request in
            request.connection.goAway(debug: #"{"reason":"BadCertificateEnvironment"}"#)
            request.connection.stream.close()
        } with: { client in
            let error = await #expect(throws: ChannelError.self) { _ = try await client.all() }
            #expect(error?.description.hasSuffix(": the certificate is for the other environment") == true)
        }
    }

    /// Apple's servers name 0 as the last stream if they have acted on nothing.
    @Test(arguments: [false, true])
    func `says what the server said when it refused the connection as a whole`(isFirstFrame: Bool) async throws {
        let farewell = #"{"reason":"BadCertificateEnvironment"}"#
        try await MockServer.run(greeting: isFirstFrame ? farewell : nil) { request in
            request.connection.goAway(last: 0, debug: farewell)
        } with: { client in
            for _ in 1...2 {
                let error = await #expect(throws: ChannelError.self) { _ = try await client.create(.none) }
                #expect(error?.description.hasSuffix(": the certificate is for the other environment") == true)
            }
        }
    }

    @Test func `does not say to try again where a channel may have been created`() async throws {
        for answer in [
            { $0.connection.stream.close() }, { $0.connection.reset($0.streamID, .internalError) },
            { $0.connection.goAway() },
        ] as [@Sendable (MockAPNs.Request) -> Void] {
            try await MockServer.run(patience: .milliseconds(500), answer) { client in
                let error = await #expect(throws: ChannelError.self) { _ = try await client.create(.none) }
                #expect(error?.description.contains("pushq-admin channel list before you try again") == true)
                let other = await #expect(throws: ChannelError.self) { _ = try await client.all() }
                #expect(other?.description.hasSuffix("; try again") == true)
            }
        }
    }

    @Test func `says to try again where the server has certainly done nothing`() async throws {
        try await MockServer.run {
            $0.connection.reset($0.streamID, .refusedStream)
        } with: { client in
            let error = await #expect(throws: ChannelError.self) { _ = try await client.create(.none) }
            #expect(error?.description.hasSuffix("before it did anything (REFUSED_STREAM); try again") == true)
        }
    }

    @Test func `says that the server allows no requests`() async throws {
        try await MockServer.run(maximumStreams: 0) { _ in
        } with: { client in
            let error = await #expect(throws: ChannelError.self) { _ = try await client.create(.none) }
            #expect(error?.description.contains("allows no requests") == true)
        }
    }

    @Test func `lists the others where one is no channel's ID`() async throws {
        try await MockServer.run {
            $0.answer(body: #"{"channels":["YQ==","a b"]}"#)
        } with: { client in
            let (channels, unreadable) = try await client.all()
            #expect(channels.map(\.text) == ["YQ=="])
            #expect(unreadable == ["a b"])
        }
    }

    @Test func `says that no answer came, and does not take it for the next one's`() async throws {
        try await MockServer.run(patience: .milliseconds(300)) { _ in
        } with: { client in
            for _ in 1...2 {
                let error = await #expect(throws: ChannelError.self) { _ = try await client.all() }
                guard case .noAnswer = error else {
                    Issue.record("\(String(describing: error))")
                    return
                }
            }
        }
    }

    /// A repetition of the command would leave a channel that nobody uses.
    @Test func `says that a channel may exist whose ID the answer lacks`() async throws {
        try await MockServer.run {
            $0.answer(body: "{}")
        } with: { client in
            let error = await #expect(throws: ChannelError.self) { _ = try await client.create(.none) }
            #expect(
                error?.description.hasPrefix("APNs answered 200 without the ID of the channel. The channel may exist")
                    == true)
        }
    }

    @Test(arguments: ["", "[]", "<html>"])
    func `says what it cannot read`(body: String) async throws {
        try await MockServer.run {
            $0.answer(body: body)
        } with: { client in
            await #expect(throws: ChannelError.unreadable(status: 200)) { _ = try await client.all() }
        }
    }
}

/// A server that handles each request as a test says, with a client.
private enum MockServer {
    static func run(
        patience: Duration = .seconds(10), maximumStreams: Int = 1000, greeting: String? = nil,
        _ respond: @escaping @Sendable (MockAPNs.Request) -> Void,
        with body: @escaping @Sendable (ChannelClient) async throws -> Void
    ) async throws {
        let loop = EventLoop(name: "channel-client")
        defer { loop.shutDown() }
        try await loop.run { _ in
            let server = try MockAPNs(on: loop, maximumStreams: maximumStreams, greeting: greeting, respond: respond)
            defer { server.close() }
            let client = ChannelClient(
                app: "com.example.App", endpoint: try server.endpoint,
                credential: .token(ProviderToken(text: "a.b.c", issuedAt: 0)), loop: loop, patience: patience)
            try await body(client)
            client.close()
        }
    }
}
