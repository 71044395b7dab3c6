import APNsSimulator
import Cryptography
import Foundation
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(10))) struct `Asking the feedback service` {
    /// A record with a token of two bytes.
    private static let record: [UInt8] = [0x4E, 0xE3, 0x84, 0x0D, 0x00, 0x02, 0xAA, 0xBB]

    /// Polls a service that runs `serve` on each connection.
    private func ask(
        silence: Duration = .seconds(30), batchSize: Int = 1000, maximumRecords: Int = .max,
        newestVersion: TLSVersion = .tls13, isStoppedBefore: Bool = false,
        serve: @escaping @Sendable (TLSConnection) -> Void,
        keep: @escaping @Sendable ([FeedbackRecord]) async throws -> Void = { _ in }
    ) async throws -> Int {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let authority = try MockAPNs.authority.get()
            let context = try TLSContext.server(
                identity: authority.issueServer(names: ["127.0.0.1"]),
                clientCertificates: .required(issuedBy: authority.certificate), applicationProtocol: nil,
                newestVersion: newestVersion)
            let listener = try TLSListener(context: context, loop: loop) { stream in serve(stream) }
            defer { listener.close() }
            var settings = FeedbackService.Settings()
            settings.silence = silence
            settings.batchSize = batchSize
            settings.maximumRecords = maximumRecords
            let service = try FeedbackService(
                endpoint: Endpoint(
                    host: "127.0.0.1", port: listener.port, authorities: try TrustStore(adding: [authority.certificate])
                ),
                identity: try authority.issueClient(.init(userID: "com.example.App")), settings: settings, loop: loop)
            if isStoppedBefore { service.stop() }
            return try await service.read(keep)
        }
    }

    @Test func `leaves out a record that is cut off at the end`() async throws {
        let bytes = Self.record + Self.record.dropLast()
        let count = try await ask { stream in
            _ = stream.write(bytes.span)
            stream.close()
        }
        #expect(count == 1)
    }

    /// Over TLS 1.2, a server's first bytes arrive together with the end of the handshake. By then the server has
    /// cleared its list.
    @Test(arguments: [TLSVersion.tls12, .tls13]) func `loses nothing of a list that comes at once`(
        version: TLSVersion
    ) async throws {
        let bytes = (0..<1000).flatMap { _ in Self.record }
        for _ in 0..<5 {
            let kept = Kept()
            let count = try await ask(newestVersion: version) { stream in
                #expect(stream.write(bytes.span) == bytes.count)
                stream.close()
            } keep: {
                kept.add($0)
            }
            #expect(count == 1000)
            #expect(kept.count == 1000)
        }
    }

    @Test func `finds an empty list`() async throws {
        #expect(try await ask { $0.close() } == 0)
    }

    @Test func `reads nothing if it is stopped before it has connected`() async throws {
        await #expect(throws: FeedbackService.Failure.stopped) {
            _ = try await ask(isStoppedBefore: true) { stream in
                _ = stream.write(Self.record.span)
                stream.close()
            }
        }
    }

    @Test func `keeps what came before the service fell silent`() async throws {
        let kept = Kept()
        await #expect(throws: FeedbackService.Failure.self) {
            _ = try await ask(silence: .seconds(2)) { stream in
                _ = stream.write(Self.record.span)
            } keep: {
                kept.add($0)
            }
        }
        #expect(kept.count == 1)
    }

    @Test func `keeps what came before nonsense`() async throws {
        let kept = Kept()
        let bytes = Self.record + Array(#"0000{"json"}"#.utf8)
        await #expect(throws: FeedbackService.Failure.self) {
            _ = try await ask {
                _ = $0.write(bytes.span)
            } keep: {
                kept.add($0)
            }
        }
        #expect(kept.count == 1)
    }

    @Test func `hands a long list over in parts, all of it`() async throws {
        let kept = Kept()
        let bytes = (0..<5000).flatMap { _ in Self.record }
        let count = try await ask(batchSize: 100) { stream in
            let sent = stream.write(bytes.span)
            #expect(sent == bytes.count)
            stream.close()
        } keep: {
            kept.add($0)
        }
        #expect(count == 5000)
        #expect(kept.count == 5000)
    }

    @Test func `stops at a number of records, which it keeps, if a list does not end`() async throws {
        let kept = Kept()
        await #expect {
            _ = try await ask(batchSize: 100, maximumRecords: 1000) { stream in
                stream.handler = Endless(stream, Self.record)
            } keep: {
                kept.add($0)
            }
        } throws: { error in
            "\(error)".hasSuffix("did not come to the end of its list within 1000 records")
        }
        #expect(kept.count > 1000)
    }

    @Test func `reads a list to its end that has just the maximum number of records`() async throws {
        let bytes = (0..<100).flatMap { _ in Self.record }
        let count = try await ask(maximumRecords: 100) { stream in
            _ = stream.write(bytes.span)
            stream.close()
        }
        #expect(count == 100)
    }

    @Test func `gets from the simulator the devices that a push found dead, for its own app and once`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "feedback-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var configuration = SimulatorConfiguration(folder: folder)
        configuration.environment = .sandbox
        (configuration.binaryPort, configuration.feedbackPort) = (0, 0)
        // The sender puts its ticket into the token: this is the fourth push.
        configuration.rules.outcomes = [
            OutcomeRule(.refuse(.init(.unregistered, timestamp: 1_700_000_000_999)), tokenPrefix: "0000000000000003")
        ]
        let simulator = try await Simulator.start(configuration)
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let (tally, lists) = try await loop.run { _ in
            let trust = try TrustStore(adding: [simulator.authority.certificate])
            let identity = { (app: String) in try simulator.authority.clientCertificate(topic: app).identity }
            var binary = BinarySettings()
            binary.grace = .milliseconds(200)
            let gateway = try BinaryGateway(
                endpoint: Endpoint(host: "127.0.0.1", port: simulator.binaryPort ?? 0, authorities: trust),
                identity: try identity("com.example.App"), settings: .brisk, binary: binary, loop: loop)
            let sender = Sender(gateway)
            sender.send(count: 10)
            await sender.untilAnswered(10)
            gateway.close()
            var lists: [[FeedbackRecord]] = []
            for app in ["com.example.Other", "com.example.App", "com.example.App"] {
                let service = try FeedbackService(
                    endpoint: Endpoint(host: "127.0.0.1", port: simulator.feedbackPort ?? 0, authorities: trust),
                    identity: try identity(app), loop: loop)
                let kept = Kept()
                _ = try await service.read { kept.add($0) }
                lists.append(kept.records)
            }
            return (sender.tally, lists)
        }
        await simulator.stop()
        #expect(tally == ["accepted": 10])
        #expect(lists.map(\.count) == [0, 1, 0])
        #expect(lists[1].first?.token.prefix(8) == [0, 0, 0, 0, 0, 0, 0, 3])
        #expect(lists[1].first?.time == 1_700_000_000)
    }
}

/// A service whose list does not end.
private final class Endless: ByteStreamHandler {
    private let stream: TLSConnection
    private let bytes: [UInt8]
    private var rest: ArraySlice<UInt8>

    init(_ stream: TLSConnection, _ record: [UInt8]) {
        self.stream = stream
        bytes = (0..<1000).flatMap { _ in record }
        rest = bytes[...]
        writable()
    }

    func writable() {
        while stream.isOpen {
            let taken = stream.write(rest.span)
            rest = rest.dropFirst(taken)
            guard rest.isEmpty else { return }
            rest = bytes[...]
        }
    }

    func received(_ bytes: Span<UInt8>) {}
    func closed(_ error: TransportError?) {}
}

/// The records that the service delivered.
private final class Kept: Sendable {
    private let all = Locked<[FeedbackRecord]>([])

    func add(_ records: [FeedbackRecord]) { all.withLock { $0 += records } }

    var records: [FeedbackRecord] { all.withLock { $0 } }
    var count: Int { records.count }
}
