import APNsSimulator
import HTTP2
import Testing
import Transport

@Suite struct `What becomes of connections` {
    private let dead = String(repeating: "dead", count: 16)
    private let bad = String(repeating: "bad0", count: 16)

    @Test func `a graceful GOAWAY loses nothing`() async throws {
        let rules = Rules(latency: .milliseconds(20) ... .milliseconds(20), connections: .init(goAwayAfter: 5))
        let snapshot = try await withSimulator(configured { $0.rules = rules }) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                let tags = (0..<10).map { _ in client.send() }
                for tag in tags { #expect(await client.answer(to: tag)?.status == 200) }
                #expect(await client.when { client.isClosed })
                #expect(client.goAways.map(\.lastStreamID) == [0x7fff_ffff, 19])
                #expect(client.goAways.last?.debugData == #"{"reason":"Shutdown"}"#)
            }
        }
        #expect(snapshot.accepted == 10)
        #expect(snapshot.abandoned == 0)
    }

    @Test func `an abrupt GOAWAY passes over what comes after its last stream`() async throws {
        let rules = Rules(connections: .init(goAwayAfter: 5, isGoAwayGraceful: false))
        let snapshot = try await withSimulator(configured { $0.rules = rules }) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                let tags = (0..<8).map { _ in client.send() }
                for tag in tags[..<5] { #expect(await client.answer(to: tag)?.status == 200) }
                for tag in tags[5...] { #expect(await client.answer(to: tag)?.ending == .aboveGoAway) }
                #expect(client.goAways.map(\.lastStreamID) == [9])
                #expect(await client.when { client.isClosed })
            }
        }
        #expect(snapshot.arrived == 5)
    }

    @Test func `a reset leaves what is in flight unanswered, and a second arrival is a repeat`() async throws {
        let rules = Rules(latency: .seconds(60) ... .seconds(60), connections: .init(resetAfter: 4))
        let snapshot = try await withSimulator(configured { $0.rules = rules }) { simulator in
            let ids = (0..<4).map { "00000000-0000-8000-8000-00000000000\($0)" }
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                for id in ids { _ = client.send(fields: [("apns-id", id)]) }
                #expect(await client.when { client.isClosed })
                #expect(client.goAways.isEmpty)
            }
            await simulator.use(Rules())
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                for id in ids { #expect(await client.push(fields: [("apns-id", id)])?.status == 200) }
            }
        }
        #expect(snapshot.arrived == 8)
        #expect(snapshot.distinct == 4)
        #expect(snapshot.repeated == 4)
        #expect(snapshot.abandoned == 4)
        #expect(snapshot.waiting == 0)
        #expect(snapshot.answeredFinally == 4)
    }

    @Test func `a paused one is there and does not react, and goes on where it stopped`() async throws {
        try await withSimulator { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                #expect(await client.push()?.status == 200)
                await simulator.pause()
                let tag = client.send()
                // A connection made meanwhile is served, so the loop itself is not blocked.
                try await PushClient.with(simulator, identity: simulator.identity()) { other in
                    #expect(await other.push()?.status == 200)
                }
                #expect(client.connection.openStreamCount == 1)
                #expect(await simulator.snapshot().arrived == 2)
                await simulator.resume()
                #expect(await client.answer(to: tag)?.status == 200)
            }
        }
    }

    @Test func `all are dropped or sent away on demand`() async throws {
        let snapshot = try await withSimulator { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                await simulator.dropConnections()
                #expect(await client.when { client.isClosed })
            }
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                await simulator.sendGoAway()
                #expect(await client.when { client.isClosed })
                #expect(client.goAways.count == 2)
            }
        }
        #expect(snapshot.connections == 2)
        #expect(snapshot.openConnections == 0)
    }

    @Test func `many refusals end it, bad tokens sooner and dead ones never`() async throws {
        for (refusal, count) in [(DocumentedReason.badDeviceToken, 4), (.payloadTooLarge, 10)] {
            let rules = Rules(
                outcomes: [
                    OutcomeRule(.refuse(.init(.unregistered)), tokenPrefix: "dead"),
                    OutcomeRule(.refuse(.init(refusal))),
                ],
                connections: .init(endAfterErrors: 10))
            let snapshot = try await withSimulator(configured { $0.rules = rules }) { simulator in
                try await PushClient.with(simulator, identity: simulator.identity()) { client in
                    for _ in 0..<20 { #expect(await client.push(token: dead)?.status == 410) }
                    for _ in 0..<count { #expect(await client.push()?.reason == refusal.rawValue) }
                    #expect(await client.when { client.isClosed })
                    #expect(client.goAways.count == 1)
                }
            }
            #expect(snapshot.refused[refusal.rawValue] == count)
        }
    }

    @Test func `a run of refusals leaves it one stream, until a push is accepted`() async throws {
        let rules = Rules(
            outcomes: [OutcomeRule(.refuse(.init(.badDeviceToken)), tokenPrefix: "bad")],
            connections: .init(slowAfterErrors: 3))
        try await withSimulator(configured { $0.rules = rules }) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                for _ in 0..<2 { _ = await client.push(token: bad) }
                _ = await client.push()
                for _ in 0..<2 { _ = await client.push(token: bad) }
                #expect(client.connection.availableStreamCount == 1000, "not three in a row")
                _ = await client.push(token: bad)
                #expect(await client.when { client.connection.availableStreamCount == 1 })
                #expect(await client.push()?.status == 200)
                #expect(await client.when { client.connection.availableStreamCount == 1000 })
            }
        }
    }
}
