import Cryptography
import TestSupport
import Transport

@testable import APNs

/// A mock server and a sender with its gateway, on one loop.
struct Scene {
    let server: MockAPNs
    let gateway: HTTP2Gateway
    let sender: Sender
}

extension PoolingGateway {
    /// The number of open connections, including those that drain.
    var connectionCount: Int { pool.open.count + pool.draining.count }
}

extension Sender {
    /// The number of connections that its gateway holds.
    var connectionCount: Int { (gateway as? any PoolingGateway)?.connectionCount ?? 0 }
}

/// A test setting: the server handles each request with `respond`.
struct Stage: Sendable {
    var maximumStreams = 1000
    var windowSize: Int?
    var readsBodies = true
    var isSilent = false
    var acknowledgesSettings = true
    var settings = GatewaySettings.brisk
    var firstStreamID: UInt32 = 1
    var newestVersion = TLSVersion.tls13
    var respond: @Sendable (MockAPNs.Request) -> Void = { $0.answer() }

    func run<Success: Sendable>(
        _ body: @Sendable (isolated LoopActor, Scene) async throws -> Success
    ) async throws -> Success {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        return try await loop.run { actor in
            let server = try MockAPNs(
                on: loop, maximumStreams: maximumStreams, windowSize: windowSize, readsBodies: readsBodies,
                isSilent: isSilent, acknowledgesSettings: acknowledgesSettings,
                newestVersion: newestVersion, respond: respond)
            let gateway = try HTTP2Gateway(
                endpoint: try server.endpoint, credential: .token(ProviderToken(text: "a.b.c", issuedAt: 0)),
                settings: settings, loop: loop, firstStreamID: firstStreamID)
            let scene = Scene(server: server, gateway: gateway, sender: Sender(gateway))
            defer {
                gateway.close()
                server.close()
            }
            return try await body(actor, scene)
        }
    }
}
