import APNsSimulator
import Cryptography
import HTTP2
import Testing
import Transport

/// Tests that events on one stream do not affect another.
@Suite(.timeLimit(.minutes(10))) struct `A stream of the simulator` {
    private static let delayed = Rules(latency: .milliseconds(200) ... .milliseconds(200))
    private static let start = ProtocolCase.preface + settings()

    @Test func `is not taken for one whose request was refused as malformed`() async throws {
        let snapshot = try await withSimulator(configured { $0.rules = Self.delayed }) { simulator in
            try await RawClient.with(simulator) { client in
                let malformed = frame(
                    FrameType.headers, [.endHeaders, .endStream], on: 5, Push.block(adding: [("content-length", "5")]))
                client.send(Self.start + Push.whole(3) + malformed + Push.whole(7))
                #expect(await client.when { client.answers.count == 2 })
                #expect(client.answers.map(\.streamID).sorted() == [3, 7])
                #expect(client.frames.filter { $0.type == FrameType.rstStream }.map(\.streamID) == [5])
            }
        }
        #expect(snapshot.accepted == 2)
        #expect(snapshot.abandoned == 0)
    }

    /// RFC 9113 §5.1.2.
    @Test func `is refused beyond the limit, counted, and no request`() async throws {
        let rules = Rules(outcomes: [OutcomeRule(.silence, tokenPrefix: "511e")])
        let snapshot = try await withSimulator(configured { ($0.rules, $0.streamLimit) = (rules, 10) }) { simulator in
            try await RawClient.with(simulator) { client in
                let pushes: [UInt8] = (0..<12).flatMap { Push.unanswered($0 * 2 + 1) }
                client.send(Self.start + frame(FrameType.settings, .ack) + pushes)
                #expect(await client.when { client.frames.count { $0.type == FrameType.rstStream } == 2 })
                let resets = client.frames.filter { $0.type == FrameType.rstStream }
                #expect(resets.map(\.streamID) == [21, 23])
                #expect(resets.allSatisfy { $0.code == .refusedStream })
            }
        }
        #expect(snapshot.excessStreams == 2)
        #expect(snapshot.arrived == 10)
    }

    /// The first answer is complete and waits for a window. Its slot belongs to another stream by then.
    @Test func `is not given up with one that is reset before its answer is through`() async throws {
        let snapshot = try await withSimulator(configured { $0.rules = Self.delayed }) { simulator in
            try await RawClient.with(simulator) { client in
                client.send(ProtocolCase.preface + settings((4, 0)) + Push.refused(1))
                #expect(await client.when { client.answers.count == 1 })
                client.send(Push.whole(3) + reset(1))
                #expect(await client.when { client.answers.count == 2 })
                #expect(client.answers.map(\.streamID) == [1, 3])
            }
        }
        #expect(snapshot.accepted == 1)
        #expect(snapshot.abandoned == 0)
        #expect(snapshot.waiting == 0)
    }
}

/// RFC 9113 §3.2, RFC 7301 §3.2.
@Suite(.timeLimit(.minutes(10))) struct `A client of the simulator` {
    /// Connects. Returns why that failed, and what the simulator counted.
    private func connect(offering applicationProtocol: String?) async throws -> (TransportError?, Snapshot) {
        let simulator = try await Simulator.start(configured())
        let loop = EventLoop(name: "client")
        defer { loop.shutDown() }
        let error = try await loop.run { _ -> TransportError? in
            let context = try TLSContext.client(
                trusting: TrustStore(adding: [simulator.authority.certificate]), identity: simulator.identity(),
                applicationProtocol: applicationProtocol)
            do {
                let stream = try await TLSConnection.connect(
                    host: simulator.host, port: simulator.port, context: context, loop: loop,
                    deadline: .now + .seconds(30))
                let greeting = Greeting(stream)
                return await greeting.error()
            } catch let error as TransportError {
                return error
            }
        }
        return (error, await simulator.stop())
    }

    @Test func `is refused if it offers other protocols`() async throws {
        let (error, snapshot) = try await connect(offering: "http/1.1")
        #expect(error?.description.contains("no application protocol") == true)
        #expect(snapshot.connections == 0 && snapshot.failedHandshakes == 1)
    }

    /// Some clients use HTTP/2 with prior knowledge.
    @Test func `is greeted if it offers none`() async throws {
        let (error, snapshot) = try await connect(offering: nil)
        #expect(error == nil)
        #expect(snapshot.connections == 1 && snapshot.failedHandshakes == 0)
    }
}

/// Waits for a server's first bytes, or for the end of the connection.
private final class Greeting: ByteStreamHandler {
    private var waiting: CheckedContinuation<TransportError?, Never>?
    private var outcome: TransportError??

    init(_ stream: TLSConnection) { stream.handler = self }

    func error() async -> TransportError? {
        await withCheckedContinuation { continuation in
            if let outcome { continuation.resume(returning: outcome) } else { waiting = continuation }
        }
    }

    func received(_ bytes: Span<UInt8>) { end(nil) }
    func writable() {}
    func closed(_ error: TransportError?) { end(error) }

    private func end(_ error: TransportError?) {
        outcome = outcome ?? .some(error)
        waiting?.resume(returning: error)
        waiting = nil
    }
}
