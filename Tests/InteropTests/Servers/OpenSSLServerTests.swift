import APNs
import Cryptography
import QueueCore
import TestSupport
import Testing
import Transport

/// `openssl s_server` (Debian: openssl), which reads any input, like a service of the binary interface, and prints for
/// each handshake whether it was resumed.
@Suite(.interop, .serialized, .timeLimit(.minutes(10)))
struct `A gateway and openssl s_server` {
    @Test(arguments: [
        ["-tls1_3"],
        ["-tls1_3", "-num_tickets", "1"],
        // The server would accept early data, and would print it.
        ["-tls1_3", "-early_data"],
        ["-tls1_2"],
        // The server keeps the sessions, each with an ID.
        ["-tls1_2", "-no_ticket"],
    ])
    func `resume sessions, and begin anew after a restart`(options: [String]) async throws {
        let first = try await start(options)
        let second = try await EventLoop.withGateway(to: first.endpoint) { gateway, sender in
            for round in 1...3 { try await Self.sendOverANewConnection(round, gateway, sender) }
            await first.stop()
            let second = try await start(options, on: first.site.port)
            for round in 4...5 { try await Self.sendOverANewConnection(round, gateway, sender) }
            #expect(sender.tally == ["accepted": 5])
            return second
        }
        await second.stop()
        for (server, count) in [(first, 3), (second, 2)] {
            let lines = server.lines(of: "output")
            #expect(lines.count { $0.hasPrefix("CIPHER is ") } == count)
            #expect(lines.count { $0 == "Reused session-id" } == count - 1)
            #expect(!lines.contains { $0.hasPrefix("Early data received") })
        }
    }

    private static func sendOverANewConnection(_ round: Int, _ gateway: BinaryGateway, _ sender: Sender) async throws {
        sender.send(count: 1, from: UInt64(round))
        await sender.untilAnswered(round)
        try await eventually("the end of the connection") { if case .idle = gateway.state { true } else { false } }
    }

    private func start(_ options: [String], on port: UInt16? = nil) async throws -> ForeignServer {
        try await ForeignServer.start(ForeignProgram("openssl"), on: port) { site in
            [
                "s_server", "-accept", "127.0.0.1:\(site.port)", "-cert", site.path("certificate.pem"), "-key",
                site.path("key.pem"), "-CAfile", site.path("authority.pem"), "-Verify", "1",
            ] + options
        }
    }
}

extension EventLoop {
    /// Runs `body` with a gateway of the binary interface whose connections end when they are idle.
    fileprivate static func withGateway<Success: Sendable>(
        to endpoint: Endpoint, _ body: @Sendable (BinaryGateway, Sender) async throws -> Success
    ) async throws -> Success {
        let identity = try ForeignServer.authority.get().issueClient(.init(userID: "com.example.App"))
        let loop = EventLoop(name: "interop")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            var settings = GatewaySettings.brisk
            settings.closeAfterIdle = .milliseconds(200)
            var binary = BinarySettings()
            binary.grace = .milliseconds(100)
            let gateway = try BinaryGateway(
                endpoint: endpoint, identity: identity, settings: settings, binary: binary, loop: loop)
            let sender = Sender(gateway)
            defer { gateway.close() }
            return try await body(gateway, sender)
        }
    }
}
