import APNsSimulator
import HTTP2
import Testing

@Suite struct `The outcomes that rules ask for` {
    private static func token(_ start: String) -> String { start + String(repeating: "0", count: 64 - start.count) }

    @Test func `go by the token's prefix, the first that fits`() async throws {
        let rules = Rules(outcomes: [
            OutcomeRule(.refuse(.init(.unregistered, timestamp: 1_458_114_061_260)), tokenPrefix: "dead"),
            OutcomeRule(.refuse(.init(.expiredToken)), tokenPrefix: "de"),
            OutcomeRule(.refuse(.init(.tooManyRequests, retryAfter: "7")), tokenPrefix: "beef"),
            OutcomeRule(.refuse(.init(status: 520, reason: "", rawBody: "<html>")), tokenPrefix: "f00d"),
        ])
        let snapshot = try await withSimulator(configured { $0.rules = rules }) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                let dead = await client.push(token: Self.token("DEAD"))
                #expect(dead?.status == 410)
                #expect(dead?.body == #"{"reason":"Unregistered","timestamp":1458114061260}"#)
                let expired = await client.push(token: Self.token("de1"))
                #expect(expired?.reason == "ExpiredToken")
                // If the rule has no time, a 410 contains the current time, in milliseconds.
                let time = try #require(expired?.body.firstMatch(of: /"timestamp":(\d+)\}/)?.1)
                #expect(try #require(Int(time)) > 1_700_000_000_000)
                let busy = await client.push(token: Self.token("beef"))
                #expect(busy?.status == 429)
                #expect(busy?.fields["retry-after"] == "7")
                let odd = await client.push(token: Self.token("f00d"))
                #expect(odd?.status == 520)
                #expect(odd?.body == "<html>")
                #expect(await client.push()?.status == 200)
            }
        }
        #expect(snapshot.refused == ["Unregistered": 1, "ExpiredToken": 1, "TooManyRequests": 1, "520": 1])
    }

    @Test func `refuse each token the first times and then accept it`() async throws {
        let rule = OutcomeRule(.refuse(.init(.serviceUnavailable)), times: 2)
        try await withSimulator(configured { $0.rules.outcomes = [rule] }) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                for token in ["aa", "bb"] {
                    var statuses: [Int?] = []
                    for _ in 0..<4 { statuses.append(await client.push(token: Self.token(token))?.status) }
                    #expect(statuses == [503, 503, 200, 200])
                }
            }
        }
    }

    @Test func `fall on a share of the tokens, always the same`() async throws {
        let rule = OutcomeRule(.refuse(.init(.badDeviceToken)), share: 0.25)
        try await withSimulator(configured { $0.rules.outcomes = [rule] }) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                func refused() async -> Set<Int> {
                    let tags = (0..<400).map { client.send(token: Self.token(String($0, radix: 16) + "c")) }
                    var refused: Set<Int> = []
                    for (number, tag) in tags.enumerated() where await client.answer(to: tag)?.status == 400 {
                        refused.insert(number)
                    }
                    return refused
                }
                let first = await refused()
                #expect(first == (await refused()))
                #expect((60...140).contains(first.count))
            }
        }
    }

    @Test func `fall on each request with a probability`() async throws {
        let rule = OutcomeRule(.refuse(.init(.internalServerError)), probability: 0.5)
        let snapshot = try await withSimulator(configured { $0.rules.outcomes = [rule] }) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                let tags = (0..<400).map { _ in client.send() }
                for tag in tags { #expect(await client.answer(to: tag) != nil) }
            }
        }
        #expect((120...280).contains(snapshot.accepted))
        #expect(snapshot.refused["InternalServerError"] == 400 - snapshot.accepted)
    }

    @Test func `may be silence, for a topic`() async throws {
        let rule = OutcomeRule(.silence, topic: "com.example.App")
        let snapshot = try await withSimulator(configured { $0.rules.outcomes = [rule] }) { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                _ = client.send()
                let spoken = await client.push(fields: [
                    ("apns-topic", "com.example.App.voip"), ("apns-push-type", "voip"),
                ])
                #expect(spoken?.status == 200)
                #expect(client.connection.openStreamCount == 1)
            }
        }
        #expect(snapshot.silenced == 1)
        #expect(snapshot.abandoned == 0)
    }

    @Test func `come no earlier than the latency, and in time`() async throws {
        let snapshot = try await withSimulator(
            configured { $0.rules.latency = .milliseconds(30) ... .milliseconds(60) }
        ) {
            simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                let start = ContinuousClock.now
                let tags = (0..<200).map { _ in client.send() }
                _ = await client.answer(to: tags[0])
                #expect(ContinuousClock.now - start >= .milliseconds(30))
                for tag in tags { #expect(await client.answer(to: tag)?.status == 200) }
                // One after the other, they would take 9 s.
                #expect(ContinuousClock.now - start < .seconds(5))
            }
        }
        #expect(snapshot.accepted == 200)
        #expect(snapshot.waiting == 0)
    }

    @Test func `can be changed while it runs`() async throws {
        try await withSimulator { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                #expect(await client.push()?.status == 200)
                await simulator.use(Rules(outcomes: [OutcomeRule(.refuse(.init(.shutdown)))]))
                #expect(await client.push()?.reason == "Shutdown")
                await simulator.use(Rules())
                #expect(await client.push()?.status == 200)
            }
        }
    }
}
