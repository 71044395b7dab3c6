import APNs
import APNsSimulator
import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// How a worker reacts to answers that tell of trouble with APNs, a key, or one push.
@Suite(.timeLimit(.minutes(10))) struct `An outage of APNs` {
    @Test func `spends no attempts, lets one push through at a time, and delays what is delivered afterwards`()
        async throws
    {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.serviceUnavailable)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 500, settings: "update pushq.queue set max_attempts = 2")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("it to be noticed", within: .seconds(60)) {
                    fixture.events.contains(
                        "APNs currently answers 503 ServiceUnavailable to pushes of acme/com.acme/sandbox")
                }
                // The pushes in flight are refused soon. From then on, the worker tries one push at a time.
                try await eventually("three more", within: .seconds(60)) {
                    await fixture.simulator.snapshot().arrived >= 503
                }
                #expect(await fixture.simulator.snapshot().arrived < 520)
                // APNs answers, so the network is not at fault.
                let told = "(in_outage, refusals, unreachable) = (array[queue.id], '{503 ServiceUnavailable}', '{}')"
                try await eventually("it to be shown with the worker", within: .seconds(60)) {
                    try await fixture.number("select count(*) from pushq.worker, pushq.queue where \(told)") == 1
                }
                #expect(try await fixture.progress()["failed"] == 0)
                await fixture.simulator.use(Rules())
                try await fixture.waitForCampaigns(within: .seconds(60))
                try await eventually("its end to be said") { fixture.events.contains("APNs takes pushes of") }
            }
            #expect(try await fixture.progress()["delivered"] == 500)
            #expect(fixture.events.all.count { $0.contains("APNs currently answers") } == 1)
        }
    }

    /// A few pushes are enough to notice the outage, and they wait for its end.
    @Test func `is noticed by the retries of one small send, none of which fails`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.serviceUnavailable)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 10)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("it to be noticed", within: .seconds(120)) {
                    fixture.events.contains(
                        "APNs currently answers 503 ServiceUnavailable to pushes of acme/com.acme/sandbox")
                }
                await fixture.simulator.use(Rules())
                try await fixture.waitForCampaigns(within: .seconds(120))
            }
            #expect(try await fixture.progress()["delivered"] == 10)
        }
    }

    /// Too few pushes are left to show it, and no other comes.
    @Test func `ends, and is said to, where nothing more is sent afterwards`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.serviceUnavailable)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 80)
            try await fixture.withEngine {
                $0.recoveryTime = .seconds(4)
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("it to be noticed", within: .seconds(60)) {
                    fixture.events.contains(
                        "APNs currently answers 503 ServiceUnavailable to pushes of acme/com.acme/sandbox")
                }
                await fixture.simulator.use(Rules())
                try await fixture.waitForCampaigns(within: .seconds(60))
                try await eventually("its end to be said", within: .seconds(30)) {
                    fixture.events.contains("APNs takes pushes of")
                }
                try await eventually("it to be shown with the worker no more", within: .seconds(30)) {
                    try await fixture.number("select count(*) from pushq.worker where in_outage = '{}'") == 1
                }
            }
            #expect(try await fixture.progress()["delivered"] == 80)
        }
    }

    /// As from a proxy, or a server that is none of APNs.
    @Test(arguments: [404, 401, 302, 405, 400, 410])
    func `is what a page in place of a reason says, and rejects nobody`(status: Int) async throws {
        try await EngineFixture.run { configuration in
            let page = OutcomeRule.Answer(
                status: status, reason: "", rawBody: "<html><body><h1>\(status) by the proxy</h1></body></html>")
            configuration.rules.outcomes = [OutcomeRule(.refuse(page))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 300)
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("it to be said", within: .seconds(60)) {
                    fixture.events.contains(
                        "APNs currently answers \(status) <html><body><h1>")
                }
                #expect(try await fixture.progress()["rejected"] == 0)
                await fixture.simulator.use(Rules())
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(try await fixture.progress()["delivered"] == 300)
            #expect(try await fixture.number("select count(*) from pushq.device where active") == 300)
        }
    }

    @Test func `is none where one push is always refused: that has failed after its attempts`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 100, settings: "update pushq.queue set max_attempts = 3")
            let token = try await fixture.text("select encode(token, 'hex') from pushq.device order by id limit 1")
            await fixture.simulator.use(
                Rules(outcomes: [OutcomeRule(.refuse(.init(.serviceUnavailable)), tokenPrefix: token)]))
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            let progress = try await fixture.progress()
            #expect(progress["delivered"] == 99)
            #expect(progress["failed"] == 1)
            #expect(await fixture.simulator.snapshot().arrived == 102)
            #expect(!fixture.events.contains("APNs currently answers"))
        }
    }

    /// Few pushes are sent, and some are always refused because of their content. They are tried in vain again and
    /// again.
    @Test func `seen in pushes that are always refused makes no other wait behind all of them`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue()
            let send = { (token: String) in
                try await fixture.number(
                    #"select pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array[repeat('\#(token)', 32)])"#)
            }
            let refused = (1...9).map { "0\($0)" }
            await fixture.simulator.use(
                Rules(
                    outcomes: refused.map { OutcomeRule(.refuse(.init(.serviceUnavailable)), tokenPrefix: $0) }))
            try await fixture.withEngine { _ in
                let begun = ContinuousClock.now
                for token in refused {
                    _ = try await send(token)
                    // Refusals at the same time could all have one momentary cause.
                    if token == "08" {
                        try await eventually("more than a second to pass") {
                            begun.duration(to: .now) > .seconds(1.1)
                        }
                    }
                }
                try await eventually("it to be taken for an outage", within: .seconds(60)) {
                    fixture.events.contains("APNs currently answers")
                }
                // Some pushes have been tried in vain. The others have waited for longer than the push below, and each
                // of them would be tried after twice the previous delay.
                let opened = await fixture.simulator.snapshot().arrived
                try await eventually("two more to try", within: .seconds(60)) {
                    await fixture.simulator.snapshot().arrived >= opened + 2
                }
                _ = try await send("aa")
                try await eventually("the other one to arrive", within: .seconds(60)) {
                    await fixture.simulator.snapshot().accepted == 1
                }
            }
        }
    }

    /// All pushes to one app are refused because of their content. More pushes than are needed for an outage are
    /// refused at once, which costs them no attempt. They are older, or more urgent, than all others.
    @Test(arguments: [(60, false), (200, false), (200, true)])
    func `seen in a burst that is always refused lets the others try first, whatever their queue`(
        burst: Int, isUrgent: Bool
    ) async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.serviceUnavailable)), tokenPrefix: "00")]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue()
            let other = try await fixture.makeQueue(app: "com.other")
            _ = try await fixture.connection.useCredential("com.acme", forQueue: other)
            let send = { (queue: QueueName, prefix: String, count: Int, isUrgent: Bool) in
                _ = try await fixture.number(
                    #"""
                    select count(pushq.send('\#(queue)', '{"aps":{"alert":"x"}}',
                        array['\#(prefix)' || lpad(to_hex(i), 62, '0')], urgent => \#(isUrgent)))
                    from generate_series(1, \#(count)) i
                    """#)
            }
            try await fixture.withEngine { _ in
                try await send(queue, "00", burst, isUrgent)
                try await eventually("it to be taken for an outage", within: .seconds(120)) {
                    fixture.events.contains("APNs currently answers")
                }
                try await send(queue, "aa", 30, false)
                try await send(other, "bb", 30, false)
                try await eventually("the others to arrive", within: .seconds(120)) {
                    await fixture.simulator.snapshot().accepted == 60
                }
            }
        }
    }

    /// The push waits for an hour, if nothing else ends it.
    @Test(arguments: [true, false]) func `ends although a push has no answer, be it from before or the one that tried`(
        isFromBefore: Bool
    ) async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "pushq-outage-\(UUID().uuidString).ndjson")
            .path
        defer { try? FileManager.default.removeItem(atPath: file) }
        try await EngineFixture.run {
            $0.recordFile = file
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 300)
            let others = try await fixture.text("select string_agg(encode(token, 'hex'), ',') from pushq.device")
            let payload = #"{"aps":{"alert":"x"}}"#
            let silence = OutcomeRule(.silence, tokenPrefix: "5151")
            let (token, digest) = (
                String(repeating: "51", count: 32), RecordDigest.ofToken(.init(repeating: 0x51, count: 32))
            )
            let refusal = OutcomeRule(.refuse(.init(.serviceUnavailable)))
            try await fixture.withEngine {
                $0.connections.responseTime = .seconds(3600)
                $0.drain = .milliseconds(100)
            } _: { _ in
                func sendSilent() async throws {
                    _ = try await fixture.number("select pushq.send('\(queue)', '\(payload)', array['\(token)'])")
                    try await eventually("it to arrive", within: .seconds(60)) {
                        await fixture.simulator.flushRecord()
                        return try SimulatorRecord(path: file).events.contains { $0.tokenDigest == digest }
                    }
                }
                await fixture.simulator.use(Rules(outcomes: [silence, refusal]))
                if isFromBefore { try await sendSilent() }
                _ = try await fixture.number("select pushq.send('\(queue)', '\(payload)', '{\(others)}')")
                try await eventually("the outage to be noticed", within: .seconds(60)) {
                    fixture.events.contains(
                        "APNs currently answers 503 ServiceUnavailable to pushes of acme/com.acme/sandbox")
                }
                // Pushes that were not refused before try first.
                if !isFromBefore { try await sendSilent() }
                await fixture.simulator.use(Rules(outcomes: [silence]))
                try await eventually("all others to be delivered", within: .seconds(60)) {
                    try await fixture.number("select coalesce(sum(delivered), 0) from pushq.result") == 300
                }
            }
        }
    }

    @Test func `by which nothing is answered is noticed and said, and over with the first answer`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.silence)]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 300)
            try await fixture.withEngine { settings in
                settings.connections.responseTime = .seconds(6)
                settings.drain = .milliseconds(100)
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("it to be noticed", within: .seconds(60)) {
                    fixture.events.contains("APNs currently answers nothing to pushes of acme/com.acme/sandbox")
                }
                // From now on, one push at a time tries.
                try await fixture.startCampaign(queue, key: "second")
                let told = "(in_outage, refusals, unreachable) = (array[queue.id], '{nothing}', '{}')"
                try await eventually("it to be shown with the worker", within: .seconds(60)) {
                    try await fixture.number("select count(*) from pushq.worker, pushq.queue where \(told)") == 1
                }
                try await eventually("the first pushes to be given up", within: .seconds(60)) {
                    fixture.events.contains("left requests without an answer")
                }
                #expect(await fixture.simulator.snapshot().arrived < 320)
                await fixture.simulator.use(Rules())
                try await fixture.waitForCampaigns(within: .seconds(90))
                try await eventually("its end to be said") { fixture.events.contains("APNs takes pushes of") }
            }
            #expect(try await fixture.number("select count(*) from pushq.result") > 0)
            #expect(
                try await fixture.number("select sum(delivered) from pushq.campaign_progress") == 600)
        }
    }

    /// The job of 300 has some pushes in flight, whose answers are awaited for 40 s more.
    @Test func `by which one of two workers gets no answers leaves the rest of its jobs to the other one`() async throws
    {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 300)
            let mute = try await fixture.startSecondSimulator()
            await mute.use(Rules(outcomes: [OutcomeRule(.silence)]))
            let endpoint = try fixture.endpoint(of: mute, port: mute.port)
            try await fixture.withEngine { settings in
                settings.endpoint = endpoint
                settings.inFlight = 40
                // Noticed after a third of this time.
                settings.connections.responseTime = .seconds(60)
                settings.drain = .milliseconds(100)
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("the silence to be noticed", within: .seconds(60)) {
                    fixture.events.contains("APNs currently answers nothing")
                }
                let sent = await mute.snapshot().arrived
                #expect(sent > 0 && sent < 60)
                try await fixture.withEngine { _ in
                    try await eventually("the others to get their push", within: .seconds(30)) {
                        await fixture.simulator.snapshot().accepted >= 300 - mute.snapshot().arrived
                    }
                    let silent = await mute.snapshot().arrived
                    #expect(silent <= sent + 5)
                    #expect(await fixture.simulator.snapshot().accepted == 300 - silent)
                    try await eventually("that to be counted") { try await fixture.progress()["waiting"] == silent }
                    #expect(try await fixture.progress()["total"] == 300)
                }
            }
            await mute.stop()
        }
    }

    @Test func `of one push does not delay the retries of others in its job`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 300)
            let tokens = try await fixture.text(
                "select string_agg(encode(token, 'hex'), ',') from (select token from pushq.device order by id limit 9) d"
            ).split(separator: ",").map(String.init)
            let silence = OutcomeRule(.silence, tokenPrefix: tokens[0])
            let refusals = tokens.dropFirst().map {
                OutcomeRule(.refuse(.init(.serviceUnavailable)), tokenPrefix: $0)
            }
            await fixture.simulator.use(Rules(outcomes: [silence] + refusals))
            try await fixture.withEngine {
                $0.connections.responseTime = .seconds(3600)
                $0.drain = .milliseconds(100)
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("all to arrive", within: .seconds(60)) {
                    await fixture.simulator.snapshot().arrived == 300
                }
                await fixture.simulator.use(Rules(outcomes: [silence]))
                try await eventually("all others to be delivered", within: .seconds(60)) {
                    try await fixture.progress()["delivered"] == 299
                }
                #expect(await fixture.simulator.snapshot().accepted == 299)
            }
        }
    }

    /// The worker whose way to APNs is silent gives its jobs to the other one and claims no more, but for those that
    /// try.
    @Test func `by which one of two workers gets no answers leaves the pushes to the other one`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 1)
            let token = try await fixture.text("select encode(token, 'hex') from pushq.device")
            let mute = try await fixture.startSecondSimulator()
            await mute.use(Rules(outcomes: [OutcomeRule(.silence)]))
            let endpoint = try fixture.endpoint(of: mute, port: mute.port)
            try await fixture.withEngine { settings in
                settings.endpoint = endpoint
                settings.connections.responseTime = .seconds(15)
                settings.drain = .milliseconds(100)
            } _: { _ in
                func send(_ count: Int) async throws {
                    _ = try await fixture.number(
                        #"select count(pushq.send('\#(queue)', '{"aps":{"alert":"x"}}', array['\#(token)'])) from generate_series(1, \#(count))"#
                    )
                }
                try await send(10)
                try await eventually("the silence to be noticed", within: .seconds(60)) {
                    fixture.events.contains("APNs currently answers nothing")
                }
                try await fixture.withEngine { _ in
                    let silent = await mute.snapshot().arrived
                    var sent = 0
                    try await eventually("a push to try", within: .seconds(60)) {
                        try await send(4)
                        sent += 4
                        return await mute.snapshot().arrived > silent
                    }
                    // Its answer is awaited for five seconds.
                    try await send(100)
                    try await eventually("nearly all to arrive at the other one", within: .seconds(4)) {
                        await fixture.simulator.snapshot().arrived >= sent + 90
                    }
                    #expect(await mute.snapshot().arrived <= silent + 5)
                    await mute.use(Rules())
                    try await fixture.waitForJobs()
                }
            }
            await mute.stop()
            #expect(try await fixture.number("select sum(unknown + failed + expired) from pushq.result") == 0)
        }
    }

    @Test func `for a key that changes its token too often is a pause, and spends no attempt`() async throws {
        try await EngineFixture.run { configuration in
            configuration.rules.outcomes = [OutcomeRule(.refuse(.init(.tooManyProviderTokenUpdates)))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 20, settings: "update pushq.queue set max_attempts = 2")
            try await fixture.withEngine { settings in
                settings.connections.backoff = Backoff(base: .milliseconds(20), cap: .milliseconds(200))
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("several connections, one after another", within: .seconds(60)) {
                    await fixture.simulator.snapshot().connections >= 4
                }
                #expect(fixture.events.contains("answers 429 TooManyProviderTokenUpdates"))
                // One push for each connection, or a few where several were allowed at that moment.
                #expect(await fixture.simulator.snapshot().arrived < 60)
                await fixture.simulator.use(Rules())
                try await fixture.waitForCampaigns(within: .seconds(60))
            }
            #expect(try await fixture.progress()["delivered"] == 20)
            #expect(try await fixture.progress()["retried"] == 0)
            #expect(try await fixture.number("select max(attempt) from pushq.result") == 1)
            #expect(
                try await fixture.number(
                    "select count(*) from pushq.provider_token where keep_until > now() + interval '10 minutes'") == 1)
        }
    }

    @Test func `is not declared where one push is always answered Shutdown, and its queue goes on`() async throws {
        try await EngineFixture.run { _, fixture in
            let queue = try await fixture.makeQueue(devices: 60, settings: "update pushq.queue set max_attempts = 2")
            let token = try await fixture.text("select encode(token, 'hex') from pushq.device order by id limit 1")
            await fixture.simulator.use(
                Rules(outcomes: [OutcomeRule(.refuse(.init(.shutdown)), tokenPrefix: token)]))
            // A connection that lasts less than ten seconds counts as a failed attempt. The job is given back
            // meanwhile.
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await fixture.waitForCampaigns(within: .seconds(90))
            }
            #expect(try await fixture.progress()["delivered"] == 59)
            #expect(try await fixture.progress()["failed"] == 1)
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A device that registers again while a push is on its way` {
    private static let undated = OutcomeRule.Answer(
        status: 410, reason: "", rawBody: #"{"reason":"Unregistered"}"#)

    @Test func `stays active, if the answer does not say since when its token has been dead`() async throws {
        // On a busy machine, the answers may come first.
        for latency in [Duration.seconds(3), .seconds(8), .seconds(8), .seconds(8)] {
            if try await isRegistered(before: latency) { return }
        }
        Issue.record("no device was registered before its push was answered")
    }

    /// Registers one of two devices while the answers to both pushes are delayed by `latency`, and expects that it
    /// stays active. Returns false if the answers came first.
    private func isRegistered(before latency: Duration) async throws -> Bool {
        let isInTime = Locked(false)
        try await EngineFixture.run { configuration in
            configuration.rules.latency = latency...latency
            configuration.rules.outcomes = [OutcomeRule(.refuse(Self.undated))]
        } _: { _, fixture in
            let queue = try await fixture.makeQueue(devices: 2)
            let token = try await fixture.text("select encode(token, 'hex') from pushq.device order by id limit 1")
            try await fixture.withEngine { _ in
                try await fixture.startCampaign(queue)
                try await eventually("both pushes to have arrived", within: .seconds(30)) {
                    await fixture.simulator.snapshot().arrived == 2
                }
                // The time of a push is known only as precisely as a statement to PostgreSQL takes.
                try await fixture.connection.runScript(
                    "select pg_sleep(1); select pushq.register_device('\(queue)', '\(token)')")
                let unanswered = await fixture.simulator.snapshot().waiting
                isInTime.withLock { $0 = unanswered == 2 }
                try await fixture.waitForCampaigns(within: .seconds(90))
            }
            guard isInTime.withLock({ $0 }) else { return }
            #expect(try await fixture.progress()["rejected"] == 2)
            #expect(try await fixture.text("select encode(token, 'hex') from pushq.device where active") == token)
        }
        return isInTime.withLock { $0 }
    }
}
