import Cryptography
import Glibc
import TestSupport
import Testing

@testable import APNs
@testable import Transport

/// A name with several addresses, one of which accepts connections and serves nothing.
@Suite(.timeLimit(.minutes(10))) struct `A name with several addresses` {
    /// Whether `localhost` resolves to ::1 and 127.0.0.1 here, in this order.
    private static let hasTwo: Bool = {
        let found = try? SocketAddress.lookUp(host: "localhost", port: 1, isNumeric: false)
        return found?.map { $0.ip.map { "\($0)" } } == ["::1", "127.0.0.1"]
    }()

    @Test(.enabled(if: hasTwo), arguments: [true, false])
    func `is sent to over the second when the first serves nothing`(isSilent: Bool) async throws {
        var settings = GatewaySettings.brisk
        settings.settingsTime = .seconds(2)
        settings.responseTime = .seconds(4)
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let (tally, swallowed, served) = try await loop.run { [settings] _ in
            let good = try MockAPNs(on: loop, maximumStreams: 100) { $0.answer() }
            defer { good.close() }
            let endpoint = try good.endpoint
            let bad = try MockAPNs(on: loop, isSilent: isSilent, host: "::1", port: endpoint.port) { _ in }
            defer { bad.close() }
            let gateway = try HTTP2Gateway(
                endpoint: Endpoint(host: "localhost", port: endpoint.port, authorities: endpoint.authorities),
                credential: .token(ProviderToken(text: "a.b.c", issuedAt: 0)), settings: settings, loop: loop)
            defer { gateway.close() }
            let sender = Sender(gateway)
            sender.maximumLosses = 3
            sender.send(count: 20)
            await sender.untilAnswered(20)
            return (sender.tally, bad.connections.count, good.requests.count)
        }
        #expect(tally == ["accepted": 20])
        #expect(swallowed == 1)
        #expect(served == 20)
    }

    @Test(arguments: [true, false]) func `has those doubted that serve nothing`(isSilent: Bool) async throws {
        var settings = GatewaySettings.brisk
        settings.settingsTime = .milliseconds(500)
        settings.responseTime = .milliseconds(1500)
        let order = try await Stage(isSilent: isSilent, settings: settings, respond: { _ in }).run { actor, scene in
            scene.sender.send(count: 1)
            let addresses = try ["127.0.0.1", "::1"].map {
                try SocketAddress.lookUp(host: $0, port: 1, isNumeric: true)[0]
            }
            while scene.gateway.pool.doubts.ordered(addresses, now: actor.loop.now) == addresses {
                await actor.loop.pause(.milliseconds(5))
            }
            return scene.gateway.pool.doubts.ordered(addresses, now: actor.loop.now).map(\.family)
        }
        #expect(order == [AF_INET6, AF_INET])
    }

    @Test func `has those doubted that do not shake hands`() async throws {
        var settings = GatewaySettings.brisk
        settings.connectTime = .milliseconds(500)
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let order = try await loop.run { [settings] actor in
            var silent: [PlainConnection] = []
            let stalling = try PlainListener(at: .tcp(host: "127.0.0.1", port: 0), loop: loop) { silent.append($0) }
            defer { stalling.close() }
            guard case .tcp(_, let port) = stalling.address else { preconditionFailure("it listens on TCP") }
            let gateway = try HTTP2Gateway(
                endpoint: Endpoint(host: "127.0.0.1", port: port, authorities: TrustStore(adding: [])),
                credential: .token(ProviderToken(text: "a.b.c", issuedAt: 0)), settings: settings, loop: loop)
            defer { gateway.close() }
            Sender(gateway).send(count: 1)
            let addresses = try ["127.0.0.1", "::1"].map {
                try SocketAddress.lookUp(host: $0, port: 1, isNumeric: true)[0]
            }
            let begun = ContinuousClock.now
            while gateway.pool.doubts.ordered(addresses, now: loop.now) == addresses,
                begun.duration(to: .now) < .seconds(20)
            {
                await actor.loop.pause(.milliseconds(5))
            }
            return gateway.pool.doubts.ordered(addresses, now: loop.now).map(\.family)
        }
        #expect(order == [AF_INET6, AF_INET])
    }

    @Test func `has none doubted that has answered`() async throws {
        let isTrusted = try await Stage(respond: { request in
            if request.streamID < 20 { return request.answer() }
            request.connection.cut()
        }).run { actor, scene in
            scene.sender.resendsUntouched = false
            scene.sender.send(count: 20)
            await scene.sender.untilAnswered(20)
            let addresses = try ["127.0.0.1", "::1"].map {
                try SocketAddress.lookUp(host: $0, port: 1, isNumeric: true)[0]
            }
            return scene.gateway.pool.doubts.ordered(addresses, now: actor.loop.now) == addresses
        }
        #expect(isTrusted)
    }
}
