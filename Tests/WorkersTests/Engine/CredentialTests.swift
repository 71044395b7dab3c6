import APNs
import APNsSimulator
import Cryptography
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `A worker's credential` {
    /// Shortens the pauses between attempts to connect.
    private func brisk(_ settings: inout EngineSettings) {
        settings.connections.backoff = Backoff(base: .milliseconds(20), cap: .milliseconds(200))
        settings.connections.stableTime = .zero
    }

    @Test func `is not connected with once it has expired, and the queue pauses until it is replaced`()
        async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 5, usesCertificate: true)
            try await fixture.connection.runScript(
                "update pushq.credential set not_after = now() - interval '1 second'")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForPause(saying: "the certificate expired at")
                #expect(await fixture.simulator.snapshot().connections == 0)
                try await eventually("it to be said", within: .seconds(60)) {
                    fixture.events.contains("the certificate acme/com.acme")
                }

                let id = try #require(try await fixture.connection.sealedCredential("com.acme", of: "acme")).id
                let next = try fixture.certificate(for: queue, id: id)
                #expect(try await fixture.connection.replaceCredential(id, by: next) == 1)
                try await fixture.waitForCampaigns()
            }
            #expect(try await fixture.progress()["delivered"] == 5)
        }
    }

    /// A pause that PostgreSQL refused used to be forgotten, and the push was sent again without end.
    @Test func `pauses the queue when it is refused for a reason that PostgreSQL does not take as it is`() async throws
    {
        try await EngineFixture.run { configuration in
            let answer = OutcomeRule.Answer(
                status: 403, reason: "Odd", rawBody: "{\"reason\":\"Odd\0\u{1B}[31mReason\"}")
            configuration.rules.outcomes = [OutcomeRule(.refuse(answer))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.withEngine(brisk) { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForPause(saying: #"Odd\u{0}\u{1B}[31mReason"#)
            }
            #expect(await fixture.simulator.snapshot().arrived == 1)
        }
    }

    /// PostgreSQL may refuse for reasons of its own, such as a full disk or a trigger.
    @Test func `is not used on while the pause cannot be written, which is tried again`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.invalidProviderToken)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            try await fixture.connection.runScript(
                """
                -- A sequence keeps its number although the statement fails.
                create sequence public.tries;
                grant usage on sequence public.tries to public;
                create function public.refuse() returns trigger language plpgsql as $$ begin
                  perform nextval('public.tries');
                  raise exception 'not now' using errcode = 'P0001';
                end $$;
                create trigger refuse before update of paused_at on pushq.queue
                    for each row execute function public.refuse();
                """)
            try await fixture.withEngine(brisk) { _ in
                try await fixture.startCampaign(queue)
                try await eventually("the refusal", within: .seconds(30)) {
                    fixture.events.contains("PostgreSQL refused")
                }
                // Meanwhile the worker reads the settings again and again, and they say that the queue is not paused.
                try await eventually("the pause to be tried three times", within: .seconds(60)) {
                    try await fixture.number("select last_value from public.tries") >= 3
                }
                #expect(await fixture.simulator.snapshot().arrived == 1)
                try await fixture.connection.runScript("drop trigger refuse on pushq.queue")
                try await fixture.waitForPause(saying: "InvalidProviderToken", within: .seconds(90))
            }
            #expect(await fixture.simulator.snapshot().arrived == 1)
        }
    }

    @Test func `does not mint again when APNs calls a young token expired`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.expiredProviderToken)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            try await fixture.withEngine(brisk) { _ in
                try await fixture.startCampaign(queue)
                try await eventually("it to be said, and several connections later") {
                    let seen = await fixture.simulator.snapshot()
                    return fixture.events.contains("correct the clock") && seen.connections >= 4
                }
                await fixture.simulator.use(Rules())
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            // Like APNs, the simulator would refuse a second token.
            let seen = await fixture.simulator.snapshot()
            #expect(Set(seen.refused.keys) == ["ExpiredProviderToken"])
            #expect(fixture.events.all.count { $0.contains("correct the clock") } == 1)
            #expect(try await fixture.progress()["delivered"] == 20)
        }
    }

    @Test func `keeps its token and changes the connection after TooManyProviderTokenUpdates`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.tooManyProviderTokenUpdates)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            try await fixture.withEngine(brisk) { _ in
                try await fixture.startCampaign(queue)
                try await eventually("another connection", within: .seconds(60)) {
                    await fixture.simulator.snapshot().connections >= 2
                }
                await fixture.simulator.use(Rules())
                try await fixture.waitForCampaigns(within: .seconds(60))
                try await eventually("the token to be kept") {
                    try await fixture.number(
                        "select count(*) from pushq.provider_token where keep_until > now() + interval '15 minutes'")
                        == 1
                }
            }
            let seen = await fixture.simulator.snapshot()
            #expect(Set(seen.refused.keys) == ["TooManyProviderTokenUpdates"])
            #expect(try await fixture.progress()["delivered"] == 20)
        }
    }

    @Test
    func `gets a connection of its own where APNs calls its key unrelated, and each recipient is tried once more`()
        async throws
    {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.unrelatedKeyIDInToken)), times: 1)]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            try await fixture.withEngine(brisk) { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns()
                #expect(try await fixture.progress()["delivered"] == 20)
                #expect(await fixture.simulator.snapshot().connections >= 2)

                await fixture.simulator.use(Rules(outcomes: [OutcomeRule(.refuse(.init(.unrelatedKeyIDInToken)))]))
                try await fixture.startCampaign(queue, key: "again")
                try await fixture.waitForPause(saying: "UnrelatedKeyIdInToken")
            }
            #expect(try await fixture.progress(key: "again")["waiting"] == 20)
        }
    }

    @Test func `pauses its queue also where jobs are given back while the connection is replaced`()
        async throws
    {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.unrelatedKeyIDInToken)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            // A connection that lasts less than ten seconds counts as a failed attempt.
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForPause(saying: "UnrelatedKeyIdInToken", within: .seconds(60))
            }
            #expect(try await fixture.progress()["waiting"] == 20)
            #expect(try await fixture.number("select max(attempt) from pushq.job") == 1)
            #expect(await fixture.simulator.snapshot().connections == 2)
        }
    }

    @Test(arguments: [GatewayKind.http2, .binary])
    func `that is refused is not connected with while its queue is paused, and at once when it is replaced`(
        gateway: GatewayKind
    ) async throws {
        try await EngineFixture.run {
            $0.binaryPort = 0
        } _: { actor, fixture in
            let queue = try await fixture.makeQueue(devices: 5, usesCertificate: true)
            if gateway == .binary { try await fixture.useBinaryInterface(for: queue) }
            let id = try #require(try await fixture.connection.sealedCredential("com.acme", of: "acme")).id
            _ = try await fixture.connection.replaceCredential(
                id, by: try fixture.strangersCertificate(for: queue, id: id))
            try await fixture.withEngine { settings in
                settings.connections.backoff = Backoff(base: .milliseconds(20), cap: .milliseconds(200))
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForPause(saying: "BadCertificate", within: .seconds(60))
                try await eventually("the worker to say so", within: .seconds(60)) {
                    fixture.events.contains("paused: ")
                }
                // Around midnight, the worker also reports the days of history that it has created.
                let lines = { fixture.events.all.count { !$0.hasPrefix("history: ") } }
                let before = lines()
                // Ten times the longest delay between attempts.
                await actor.loop.pause(.seconds(2))
                #expect(lines() == before, "\(fixture.events.all)")
                #expect(!fixture.events.contains("APNs can be reached again"))
                _ = try await fixture.connection.replaceCredential(
                    id, by: try fixture.certificate(for: queue, id: id))
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(try await fixture.progress()["delivered"] == 5)
        }
    }

    @Test func `is not blamed when GOAWAY says that its provider token has expired`() async throws {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            let server = try MockAPNs(on: actor.loop) { request in
                if request.connection.number == 0 {
                    request.connection.goAway(last: 0, debug: #"{"reason":"ExpiredProviderToken"}"#)
                } else {
                    request.answer()
                }
            }
            defer { server.close() }
            let endpoint = try server.endpoint
            try await fixture.withEngine { settings in
                settings.endpoint = endpoint
                settings.connections.backoff = Backoff(base: .milliseconds(20), cap: .milliseconds(200))
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(try await fixture.progress()["delivered"] == 20)
            #expect(!fixture.events.contains("paused"))
        }
    }

    /// As when APNs ends all connections of a key at once. They began before the first of these words.
    @Test(arguments: [false, true])
    func `is not blamed when GOAWAY calls its key unrelated on all connections at once, but when it does on the next`(
        isWrong: Bool
    ) async throws {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue(
                devices: 3000, settings: "update pushq.queue set connections = 4")
            let unrelated = #"{"reason":"UnrelatedKeyIdInToken"}"#
            let server = try MockAPNs(on: actor.loop, maximumStreams: 5) { request in
                let connection = request.connection
                if isWrong, connection.number >= 4 { return connection.goAway(last: 0, debug: unrelated) }
                connection.stream.loop.schedule(after: .milliseconds(20)) {
                    if !connection.isClosed { request.answer() }
                }
            }
            defer { server.close() }
            let endpoint = try server.endpoint
            try await fixture.withEngine {
                brisk(&$0)
                $0.endpoint = endpoint
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("four connections that serve", within: .seconds(30)) {
                    server.connections.count == 4 && server.connections.allSatisfy { $0.openCount > 0 }
                }
                for connection in server.connections { connection.goAway(debug: unrelated) }
                if isWrong {
                    try await fixture.waitForPause(saying: "UnrelatedKeyIdInToken")
                } else {
                    try await fixture.waitForCampaigns(within: .seconds(30))
                    #expect(!fixture.events.contains("paused"))
                }
                #expect(server.connections.count > 4)
            }
        }
    }

    @Test func `is replaced under load within five seconds, and nothing is lost or refused`()
        async throws
    {
        let nextKey = try PrivateKey.makeP256()
        let publicKey = try nextKey.publicKey()
        try await EngineFixture.run { configuration in
            configuration.rules.latency = .milliseconds(100) ... .milliseconds(100)
            configuration.streamLimit = 100
            configuration.signingKeys = [
                SigningKey(keyID: "NEXTKEY001", teamID: TestAuthority.teamID, publicKey: publicKey)
            ]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 4000, settings: "update pushq.queue set connections = 1")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("some pushes to arrive") { await fixture.simulator.snapshot().accepted > 200 }
                let id = try #require(try await fixture.connection.sealedCredential("com.acme", of: "acme")).id
                let secret = try fixture.masterKeys.seal(Array(nextKey.pem().utf8), for: id.secretOwner)
                let next = NewCredential(
                    kind: .token(teamID: TestAuthority.teamID, keyID: "NEXTKEY001"), environments: ["sandbox"],
                    sealed: secret)
                _ = try await fixture.connection.replaceCredential(id, by: next)
                try await eventually("a connection with the new key", within: .seconds(5)) {
                    await fixture.simulator.snapshot().connections == 2
                }
                try await eventually("the old one to be closed") {
                    await fixture.simulator.snapshot().openConnections == 1
                }
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let seen = await fixture.simulator.snapshot()
            #expect(seen.arrived == 4000)
            #expect(seen.repeated == 0)
            #expect(seen.refused.isEmpty)
            #expect(seen.connections == 2)
            #expect(try await fixture.progress()["delivered"] == 4000)
            #expect(try await fixture.number("select count(*) from pushq.provider_token") == 2)
        }
    }

    /// Workers that are replaced often have a short `--drain`. It is about the end of a worker.
    @Test(arguments: [false, true])
    func `leaves pushes in flight their time when it, or the number of its connections, is changed`(isReplaced: Bool)
        async throws
    {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue(devices: 5)
            var held: [MockAPNs.Request] = []
            let server = try MockAPNs(on: actor.loop) { request in
                if request.connection.number == 0 { held.append(request) } else { request.answer() }
            }
            defer { server.close() }
            let endpoint = try server.endpoint
            try await fixture.withEngine { settings in
                settings.endpoint = endpoint
                settings.drain = .milliseconds(50)
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("the pushes to be in flight") { held.count == 5 }
                if isReplaced {
                    let id = try #require(try await fixture.connection.sealedCredential("com.acme", of: "acme")).id
                    _ = try await fixture.connection.replaceCredential(id, by: fixture.signingKey(id: id))
                } else {
                    try await fixture.connection.runScript("update pushq.queue set connections = 3")
                }
                // The gateway has been replaced when a push comes over another connection.
                try await eventually("another connection", within: .seconds(60)) {
                    try await fixture.connection.runScript(
                        #"select pushq.send('\#(queue)', '{"aps":{"alert":"y"}}', array['00ff'])"#)
                    return server.connections.count > 1
                }
                // Four times the worker's drain.
                await actor.loop.pause(.milliseconds(200))
                for request in held { request.answer() }
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(server.requests.count { $0.body == held[0].body } == 5)
            #expect(try await fixture.progress()["delivered"] == 5)
        }
    }

    @Test(arguments: [(tenant: "acme", connections: 1), (tenant: "other", connections: 2)])
    func `that holds the same key as another shares its token, and its connection only within a tenant`(
        tenant: String, connections: Int
    ) async throws {
        try await EngineFixture.run { _, fixture in
            let first = try await fixture.makeQueue(devices: 5)
            let second = try await fixture.makeQueue(tenant: tenant, app: "com.other", devices: 5)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(first, key: "first")
                try await fixture.startCampaign(second, key: "second")
                try await fixture.waitForCampaigns()
            }
            let seen = await fixture.simulator.snapshot()
            #expect(seen.accepted == 10)
            #expect(seen.refused.isEmpty, "a second token within 20 minutes would be")
            #expect(seen.connections == connections)
            #expect(try await fixture.number("select count(*) from pushq.provider_token") == 1)
        }
    }

    @Test(arguments: [DocumentedReason.topicDisallowed, .unrelatedKeyIDInToken])
    func `that is refused for the topic of calls alone goes on with alerts`(reason: DocumentedReason) async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(reason)), topic: "com.acme.voip")]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 50)
            try await fixture.withEngine(brisk) { _ in
                let call =
                    #"select pushq.send('\#(queue)', '{"call":1}', array[repeat('00ff', 16)], push_type => 'voip')"#
                for _ in 0..<10 { try await fixture.connection.runScript(call) }
                for number in 0..<5 {
                    try await fixture.startCampaign(queue, key: "\(number)")
                    try await fixture.waitForCampaigns(within: .seconds(60))
                    #expect(try await fixture.progress(key: "\(number)")["delivered"] == 50)
                }
                #expect(try await fixture.number("select count(*) from pushq.queue where paused_at is not null") == 0)
            }
        }
    }

    @Test func `that is refused for the topic of calls, where there is nothing else, is named with topic and type`()
        async throws
    {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.topicDisallowed)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue()
            try await fixture.withEngine { _ in
                let call =
                    #"select pushq.send('\#(queue)', '{"call":1}', array[repeat('00ff', 16)], push_type => 'voip')"#
                try await fixture.connection.runScript(call)
                try await eventually("its pause", within: .seconds(30)) {
                    fixture.events.contains("APNs answered TopicDisallowed to a push of type voip to com.acme.voip:")
                }
            }
        }
    }

    /// Apple fixes what a connection may do at its first push. An operator adds the app to the team, and resumes.
    @Test(arguments: [false, true])
    func `whose app is added at Apple while the queue is paused sends over a new connection once it resumes`(
        isPausedByHand: Bool
    ) async throws {
        try await EngineFixture.run { configuration in
            configuration.bundleIDs = ["com.other"]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 5)
            try await fixture.withEngine(brisk) { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForPause(saying: "TopicDisallowed")
                await fixture.simulator.use(bundleIDs: nil)
                if isPausedByHand { try await fixture.connection.pauseQueue(queue, reason: "Apple is asked") }
                #expect(try await fixture.connection.resumeQueue(queue))
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(try await fixture.progress()["delivered"] == 5)
        }
    }

    @Test func `that APNs refuses for a while is used again without anybody's help`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.invalidProviderToken)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 5)
            try await fixture.withEngine(brisk) { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForPause(saying: "InvalidProviderToken")
                await fixture.simulator.use(Rules())
                // As if 20 minutes had passed.
                try await fixture.connection.runScript(
                    "update pushq.queue set paused_at = paused_at - interval '20 minutes'")
                try await eventually("the next try", within: .seconds(60)) {
                    // More than once: a run of the duty that is under way sets its own time at its end.
                    try await fixture.connection.runScript(
                        "update pushq.duty set next_at = now() where name = 'credentials'")
                    return try await fixture.number("select count(*) from pushq.queue where paused_at is not null") == 0
                }
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(try await fixture.progress()["delivered"] == 5)
        }
    }
}
