import Cryptography
import QueueCore
import TestSupport
import Transport

@testable import APNs
@testable import APNsSimulator

/// A test setting for the binary interface: the server handles each notification with `respond`.
struct BinaryStage: Sendable {
    var settings = GatewaySettings.brisk
    var binary: BinarySettings
    var firstIdentifier: UInt32
    /// Whether the server trusts the client's authority.
    var isKnown: Bool
    /// The minimum time between two connections.
    var openingInterval = Duration.zero
    let respond: @Sendable (MockBinaryServer.Arrival) -> MockBinaryServer.Reaction

    /// - Parameter grace: the real default, so that an error arrives within it even on a busy machine.
    init(
        settings: GatewaySettings = .brisk, command: BinaryCommand = .framed, windowSize: Int = 5000,
        grace: Duration = .seconds(2), firstIdentifier: UInt32 = 1, isKnown: Bool = true,
        respond: @escaping @Sendable (MockBinaryServer.Arrival) -> MockBinaryServer.Reaction
    ) {
        self.settings = settings
        self.settings.maximumConnections = 1
        binary = BinarySettings()
        binary.command = command
        binary.windowSize = windowSize
        binary.grace = grace
        self.firstIdentifier = firstIdentifier
        self.isKnown = isKnown
        self.respond = respond
    }

    /// Runs the scene, and returns its outcome.
    func run(_ body: @Sendable (BinaryScene) async throws -> Void) async throws -> BinaryOutcome {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await loop.run { _ in
            let scene = try BinaryScene(self, on: loop)
            defer {
                scene.gateway.close()
                scene.server.close()
            }
            try await body(scene)
            return BinaryOutcome(of: scene)
        }
    }
}

/// A mock server and a sender with its gateway, on one loop.
final class BinaryScene {
    let loop: EventLoop
    let server: MockBinaryServer
    let identity: TLSIdentity
    let authorities: TrustStore
    let gateway: BinaryGateway
    let sender: Sender
    fileprivate var notes: [String: Int] = [:]

    fileprivate init(_ stage: BinaryStage, on loop: EventLoop) throws {
        self.loop = loop
        let authority = try MockAPNs.authority.get()
        server = try MockBinaryServer(on: loop, clientsOf: authority, respond: stage.respond)
        let issuer = stage.isKnown ? authority : try CertificateAuthority.make(commonName: "Stranger")
        let identity = try issuer.issueClient(.init(userID: "com.example.App"))
        self.identity = identity
        authorities = try TrustStore(adding: [authority.certificate])
        var binary = stage.binary
        binary.openingInterval = stage.openingInterval
        gateway = try BinaryGateway(
            endpoint: Endpoint(
                host: "127.0.0.1", port: server.port, authorities: authorities),
            identity: identity, settings: stage.settings, binary: binary, loop: loop,
            firstIdentifier: stage.firstIdentifier)
        sender = Sender(gateway)
    }

    /// Keeps a number for the checks after the scene.
    func note(_ name: String, _ number: Int) { notes[name] = number }
}

/// The outcome of a scene.
struct BinaryOutcome: Sendable {
    let results: [UInt64: String]
    let tally: [String: Int]
    let repeatedCount: Int
    let highestBatch: Int
    let arrivals: [BinaryNotification]
    let ticketsByConnection: [[UInt64]]
    let notes: [String: Int]

    fileprivate init(of scene: BinaryScene) {
        let (sender, server) = (scene.sender, scene.server)
        results = sender.results
        tally = sender.tally
        repeatedCount = sender.repeatedCount
        highestBatch = sender.batchSizes.max() ?? 0
        arrivals = server.arrivals.map(\.notification)
        notes = scene.notes
        ticketsByConnection = Dictionary(grouping: server.arrivals, by: \.connection)
            .sorted { $0.key < $1.key }.map { $0.value.map(\.ticket) }
    }
}
