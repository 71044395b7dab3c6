import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// The badge numbers that devices get, compared with a judge that counts.
@Suite(.timeLimit(.minutes(10))) struct `A badge that counts` {
    private static let name = QueueFixture.name
    private static let one = #"{"aps":{"alert":"x","badge":{"increment":1}}}"#

    @Test(arguments: 1...10 as ClosedRange<UInt64>)
    func `is the number that a judge comes to, whatever becomes of jobs and workers`(seed: UInt64) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 8)
            var world = try await BadgedWorld(queue, seed: seed)
            for _ in 1...120 { try await world.step() }
            try await world.finish()
            // Checks that the random events include enough of what is tested.
            #expect(
                world.taken > 50 && world.repeats > 5 && world.givenBack > 5 && world.resets > 3,
                "seed \(seed): \(world.summary)")
        }
    }

    /// Several workers send to the same devices at the same time.
    @Test func `is another one for each message, though workers ask at the same moment`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 60)
            for number in 1...12 {
                try await queue.fanOut(
                    Int64(
                        try await queue.number(
                            "select pushq.start_campaign('\(Self.name)', 'k\(number)', '\(Self.one)')")))
            }
            var claims: [(PostgresConnection, [ClaimedJob])] = []
            for worker in 1...12 {
                let connection = try await database.connect(login: TestServer.workerLogin)
                claims.append((connection, try await queue.claim(1, workerID: Int64(worker))))
            }
            var answers: [ClaimedJob] = []
            var problems: [String] = []
            var asked = 0
            for (number, (connection, jobs)) in claims.enumerated() {
                actor.loop.startTask {
                    do {
                        answers += try await connection.takingBadges(jobs, workerID: Int64(number + 1))
                    } catch {
                        problems.append("\(error)")
                    }
                    asked += 1
                }
            }
            try await eventually("twelve answers", { asked }, until: { $0 == 12 })
            #expect(problems == [])
            #expect(answers.allSatisfy { $0.lockedBadges.isEmpty }, "they take turns")
            var payloads: [Int64: Set<String>] = [:]
            for job in answers {
                for ordinal in job.deviceIDs.indices {
                    payloads[job.deviceIDs[ordinal], default: []].insert(Self.payload(of: ordinal, in: job))
                }
            }
            let all = Set((1...12).map { Self.one.replacing(#"{"increment":1}"#, with: "\($0)") })
            #expect(payloads.count == 60 && payloads.values.allSatisfy { $0 == all })
        }
    }

    /// A producer's open transaction delays only the pushes to the devices whose badges it has changed. A worker that
    /// ends jobs meanwhile does not wait for it.
    @Test(arguments: [0, 7])
    func `is waited for only where another transaction keeps it`(badge: Int) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let tokens = try await queue.texts("select encode(token, 'hex') from pushq.device order by id")
            for token in tokens { _ = try await send(to: token, queue) }
            let all = "array['\(tokens.joined(separator: "','"))']"
            try await queue.run("select pushq.send('\(Self.name)', '\(Self.one)', \(all))")
            try await queue.run("select pushq.send('\(Self.name)', '\(Self.one)', \(all))")
            let first = try await queue.worker.takingBadges(try await queue.claim(1, lane: .normal), workerID: 1)

            let producer = try await database.connect()
            try await producer.runScript(
                "begin; select pushq.set_badge('\(Self.name)', '\(tokens[1])', badge => \(badge))")
            let second = try await queue.worker.takingBadges(try await queue.claim(1, lane: .normal), workerID: 1)
            let job = try #require(second.first)
            #expect(job.lockedBadges == [job.deviceIDs[1]])
            #expect(Self.payload(of: 0, in: job) == Self.one.replacing(#"{"increment":1}"#, with: "3"))
            #expect(Self.payload(of: 2, in: job) == Self.one.replacing(#"{"increment":1}"#, with: "3"))

            let ended = try #require(first.first)
            let end = SettledJob(
                key: ended.key, outcomes: [UInt8](repeating: Outcome.rejected(.unregistered).rawValue, count: 3),
                again: [], reports: [], notes: nil,
                givenBackBadges: GivenBackBadges(increment: 1, deviceIDs: ended.deviceIDs))
            #expect(try await queue.worker.endJobs([end], workerID: 1).keys == [ended.key])
            try await producer.runScript("commit")
            // One push arrived and one is on its way. The badges of the pushes that arrived nowhere were given back.
            let counts = try await queue.texts(
                "select coalesce(b.count, 0)::text from pushq.device d left join pushq.badge b on b.device_id = d.id order by d.id"
            )
            #expect(counts == ["2", "\(badge)", "2"])
        }
    }

    @Test func `is not raised for a token that another one has replaced since the worker read it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func register(_ token: String) async throws {
                try await queue.run(
                    "select pushq.register_device('\(Self.name)', '\(token)', 'ann', installation => 'phone')")
            }
            try await register("a1")
            for _ in 1...4 { _ = try await send(to: "a1", queue) }
            try await queue.run("select pushq.send('\(Self.name)', '\(Self.one)', user_key => 'ann')")
            let claimed = try await queue.claim(1, lane: .normal)
            try await register("a2")
            let job = try #require(try await queue.worker.takingBadges(claimed, workerID: 1).first)
            #expect(job.lockedBadges == Set(job.deviceIDs))
            #expect(
                try await queue.texts(
                    """
                    select encode(d.token, 'hex') || ' ' || b.count
                    from pushq.badge b
                    join pushq.device d on d.id = b.device_id
                    """) == ["a2 4"])
        }
    }

    /// As when the token is replaced while the worker waits for its row. The number was raised at the old token.
    @Test(arguments: [true, false])
    func `is not raised for a token that is replaced at the moment at which the worker raises it first`(
        isFirstOfQueue: Bool
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database)
            let register = { (token: String) in
                "select pushq.register_device('\(Self.name)', '\(token)', 'ann', installation => 'phone')"
            }
            if !isFirstOfQueue { _ = try await send(to: "b9", queue) }
            try await queue.run(register("a1"))
            try await queue.run("select pushq.send('\(Self.name)', '\(Self.one)', user_key => 'ann')")
            let claimed = try await queue.claim(1, lane: .normal)
            let producer = try await database.connect()
            try await producer.runScript("begin; \(register("a2"))")
            let taking = Task {
                _ = actor
                return try await queue.worker.takingBadges(claimed, workerID: 1, patience: .seconds(20))
            }
            try await database.waitUntilBlocked("the worker", running: "take_badges", on: queue.worker)
            try await producer.runScript("commit")
            let job = try #require(try await taking.value.first)
            #expect(job.lockedBadges == Set(job.deviceIDs))
            let badges =
                "select count(*) from pushq.badge b join pushq.device d on d.id = b.device_id where d.token <> '\\xb9'"
            #expect(try await queue.number(badges) == 0)
        }
    }

    @Test(arguments: [false, true])
    func `is given back by the newer token that has it by then, unless another transaction keeps it`(isKept: Bool)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func register(_ token: String) async throws {
                try await queue.run(
                    "select pushq.register_device('\(Self.name)', '\(token)', 'ann', installation => 'phone')")
            }
            let badges = """
                select encode(d.token, 'hex') || ' ' || b.count || ' ' || cardinality(b.root_ids)
                from pushq.badge b
                join pushq.device d on d.id = b.device_id
                """
            try await register("a1")
            for _ in 1...2 {
                try await queue.run("select pushq.send('\(Self.name)', '\(Self.one)', user_key => 'ann')")
            }
            let jobs = try await queue.worker.takingBadges(try await queue.claim(lane: .normal), workerID: 1)
            for token in ["a2", "a3"] { try await register(token) }
            #expect(try await queue.texts(badges) == ["a3 2 2"])
            let producer = try await database.connect()
            if isKept {
                try await producer.runScript(
                    "begin; select pushq.set_badge('\(Self.name)', 'a3', badge => 7)")
            }
            let ends = jobs.map {
                SettledJob(
                    key: $0.key, outcomes: [Outcome.expired.rawValue], again: [], reports: [], notes: nil,
                    givenBackBadges: GivenBackBadges(increment: 1, deviceIDs: $0.deviceIDs))
            }
            #expect(try await queue.worker.endJobs(ends, workerID: 1).keys == Set(ends.map(\.key)))
            if isKept { try await producer.runScript("rollback") }
            #expect(try await queue.texts(badges) == [isKept ? "a3 2 2" : "a3 0 0"])
        }
    }

    @Test func `does not count a message that waits for long, and counts it anew when it is sent`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let tokens = ["0000000000000001", "0000000000000002"]
            try await queue.run(
                "select pushq.send('\(Self.name)', '\(Self.one)', array['\(tokens.joined(separator: "','"))'])")
            let claimed = try await queue.claim(lane: .normal)
            let job = try #require(try await queue.worker.takingBadges(claimed, workerID: 1).first)
            let back = YieldedLease(
                progress: LeaseProgress(key: job.key, watermark: 1, outcomes: [Outcome.delivered.rawValue, 0]),
                delay: .seconds(3600), givenBackBadges: GivenBackBadges(increment: 1, deviceIDs: [job.deviceIDs[1]]))
            #expect(try await queue.worker.yield([back], workerID: 1).keys == [job.key])
            for (token, figure) in zip(tokens, [2, 1]) {
                let brought = try await send(to: token, queue)
                #expect(brought == Self.one.replacing(#"{"increment":1}"#, with: "\(figure)"))
            }
            try await queue.run("update pushq.job set run_at = now()")
            let again = try await queue.claim(lane: .normal)
            let last = try #require(try await queue.worker.takingBadges(again, workerID: 1).first)
            #expect(last.rootID == job.rootID)
            #expect(Self.payload(of: 1, in: last) == Self.one.replacing(#"{"increment":1}"#, with: "2"))
            #expect(try await queue.texts("select count from pushq.badge") == ["2", "2"])
        }
    }

    /// It used to stay one too high until the app reset it.
    @Test func `falls when a message ends unsent after its time, though another one was counted meanwhile`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let count = "select count from pushq.badge"
            let call = "select pushq.send('\(Self.name)', '\(Self.one)', array['0000000000000001']"
            try await queue.run("\(call), send_by => now() + interval '1 hour')")
            let claimed = try await queue.claim(lane: .normal)
            let first = try #require(try await queue.worker.takingBadges(claimed, workerID: 1).first)
            let progress = LeaseProgress(key: first.key, watermark: 0, outcomes: [0])
            _ = try await queue.worker.yield([YieldedLease(progress: progress)], workerID: 1)
            try await queue.run("update pushq.badge set kept_until = array[now() - interval '1 minute']")
            try await queue.run("\(call))")
            let both = try await queue.claim(lane: .normal)
            let second = both.filter { $0.rootID != first.rootID }
            #expect(try await queue.worker.takingBadges(second, workerID: 1).count == 1)
            #expect(try await queue.number(count) == 2)
            let expired = try #require(both.first { $0.rootID == first.rootID })
            let end = SettledJob(
                key: expired.key, outcomes: [Outcome.expired.rawValue], again: [], reports: [], notes: nil,
                givenBackBadges: GivenBackBadges(increment: 1, deviceIDs: expired.deviceIDs))
            _ = try await queue.worker.endJobs([end], workerID: 1)
            #expect(try await queue.number(count) == 1)
        }
    }

    /// The newer token's number once fell to that before the push that it had got itself.
    @Test func `stays raised for a token that replaces another recipient of the same push, which got nothing`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                select pushq.register_device('\(Self.name)', 'a1', 'ann', installation => 'phone');
                select pushq.register_device('\(Self.name)', 'b2', 'ann');
                select pushq.send('\(Self.name)', '\(Self.one)', user_key => 'ann')
                """)
            let claimed = try await queue.claim(1, lane: .normal)
            let job = try #require(try await queue.worker.takingBadges(claimed, workerID: 1).first)
            try await queue.run(
                "select pushq.register_device('\(Self.name)', 'b2', 'ann', installation => 'phone')")
            let end = SettledJob(
                key: job.key, outcomes: [Outcome.rejected(.unregistered).rawValue, Outcome.delivered.rawValue],
                again: [], reports: [], notes: nil,
                givenBackBadges: GivenBackBadges(increment: 1, deviceIDs: [job.deviceIDs[0]]))
            #expect(try await queue.worker.endJobs([end], workerID: 1).keys == [job.key])
            #expect(
                try await queue.texts(
                    """
                    select encode(d.token, 'hex') || ' ' || b.count
                    from pushq.badge b
                    join pushq.device d on d.id = b.device_id
                    """) == ["b2 1"])
        }
    }

    @Test func `is not made anew for a device that was forgotten since the worker read its token`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            let tokens = try await queue.texts("select encode(token, 'hex') from pushq.device order by id")
            let all = "array['\(tokens.joined(separator: "','"))']"
            try await queue.run("select pushq.send('\(Self.name)', '\(Self.one)', \(all))")
            let claimed = try await queue.claim(1, lane: .normal)
            try await queue.run("select pushq.forget_device('\(Self.name)', '\(tokens[0])')")
            let job = try #require(try await queue.worker.takingBadges(claimed, workerID: 1).first)
            #expect(job.lockedBadges == [job.deviceIDs[0]])
            #expect(try await queue.texts("select device_id::text from pushq.badge") == ["\(job.deviceIDs[1])"])
        }
    }

    private static func payload(of ordinal: Int, in job: ClaimedJob) -> String {
        var payload: [UInt8] = []
        job.personal?.join(for: ordinal, into: &payload)
        return String(decoding: payload, as: UTF8.self)
    }

    /// Sends to a token, lets the push arrive, and returns the payload that the device gets.
    private func send(_ payload: String = one, to token: String, _ queue: QueueFixture) async throws -> String {
        try await queue.run("select pushq.send('\(Self.name)', '\(payload)', array['\(token)'])")
        let jobs = try await queue.worker.takingBadges(try await queue.claim(lane: .normal), workerID: 1)
        let job = try #require(jobs.first)
        let got = Self.payload(of: 0, in: job)
        _ = try await queue.worker.endJobs([queue.settled(job)], workerID: 1)
        return got
    }

    @Test func `goes on with a newer token, and begins anew for another user, and without one`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func register(_ token: String, _ user: String) async throws {
                try await queue.run(
                    "select pushq.register_device('\(Self.name)', '\(token)', '\(user)', installation => 'phone')")
            }
            func badge(of token: String) async throws -> Int {
                let got = try await send(to: token, queue)
                return Int(got.filter(\.isNumber)) ?? -1
            }
            try await register("aa", "ann")
            #expect(try await badge(of: "aa") == 1)
            #expect(try await badge(of: "aa") == 2)
            try await register("aa", "ann")
            #expect(try await badge(of: "aa") == 3, "it is the app that resets it")
            try await register("bb", "ann")
            #expect(try await badge(of: "bb") == 4, "the icon is the same")
            try await register("bb", "bob")
            #expect(try await badge(of: "bb") == 1, "what Ann has not seen is not Bob's")
            #expect(try await badge(of: "bb") == 2)
            try await queue.run("select pushq.unregister_device('\(Self.name)', 'bb')")
            try await register("bb", "bob")
            #expect(try await badge(of: "bb") == 1)
            try await queue.run("select pushq.forget_device('\(Self.name)', 'bb')")
            #expect(try await queue.number("select count(*) from pushq.badge") == 0)
        }
    }

    @Test func `begins anew where a file gives a device to another user, unless its app has said whose it is`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            func importFile(_ lines: String) async throws {
                let file = DeviceFile.text("token,user_key\n" + lines)
                _ = try await queue.connection.importDevices(from: file, inQueue: Self.name, reactivates: false) { _ in
                }
            }
            try await importFile("aa,ann\nbb,ann\ncc,ann\n")
            try await queue.run("select pushq.register_device('\(Self.name)', 'bb', 'ann')")
            for token in ["aa", "bb", "cc"] { #expect(try await send(to: token, queue).contains(#""badge":1"#)) }
            try await importFile("aa,bob\nbb,bob\ncc,ann\n")
            #expect(try await send(to: "aa", queue).contains(#""badge":1"#), "Bob has seen what there is")
            #expect(try await send(to: "bb", queue).contains(#""badge":2"#), "it is Ann's: her app says so")
            #expect(try await send(to: "cc", queue).contains(#""badge":2"#))
        }
    }

    @Test func `stands where the payload says it, and is counted beside attributes and languages`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let token = "0000000000000001"
            let written =
                #"{"badge":{"increment":1}, "aps" : {"b\u0061dge" : { "increment" : 3 } , "alert":"{{name}}"}}"#
            #expect(
                try await send(written, to: token, queue)
                    == written.replacing("{ \"increment\" : 3 }", with: "3"), "a send has no placeholders")
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, locale, attributes)
                select queue_id, id, 'de', '{"name":"Ann"}' from pushq.device;
                select pushq.start_campaign('\(Self.name)', 'k', '{"default":{"aps":{"badge":{"increment":2},"alert":"Hi"}},
                  "languages":{"de":{"aps":{"alert":"Hallo {{name}}","badge":{"increment":2}}}}}')
                """)
            try await queue.fanOut(Int64(try await queue.number("select id from pushq.campaign")))
            let jobs = try await queue.worker.takingBadges(try await queue.claim(), workerID: 1)
            #expect(Self.payload(of: 0, in: try #require(jobs.first)) == #"{"aps":{"alert":"Hallo Ann","badge":5}}"#)
        }
    }

    @Test func `is kept with a message for days after it may be sent, and for the latest hundred`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run(
                """
                select pushq.send('\(Self.name)', '\(Self.one)', array['0000000000000001']) from generate_series(1, 130)
                """)
            let claimed = try await queue.claim(200, lane: .normal)
            let jobs = try await queue.worker.takingBadges(claimed, workerID: 1)
            #expect(jobs.count == 130, "as many as there are at once")
            #expect(try await queue.number("select cardinality(figures) from pushq.badge") == 130)
            _ = try await queue.worker.endJobs(jobs.dropLast().map { queue.settled($0) }, workerID: 1)
            _ = try await send(to: "0000000000000001", queue)
            #expect(try await queue.number("select cardinality(figures) from pushq.badge") == 101)
            try await queue.run(
                "update pushq.badge set kept_until = array_fill(now() - interval '4 days', array[101])")
            #expect(try await send(to: "0000000000000001", queue).contains("132"))
            #expect(try await queue.number("select cardinality(figures) from pushq.badge") == 1)
        }
    }

    /// The call fails and is repeated. It used to return, and the number stayed.
    @Test(arguments: ["repeatable read", "serializable"], ["token => '0000000000000001'", "user_key => 'ann'"])
    func `does not stay as it is without an error if the transaction that resets it cannot see it`(
        level: String, whom: String
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run("update pushq.device set user_key = 'ann'")
            let reset = "select pushq.set_badge('\(Self.name)', \(whom))"
            let producer = try await database.connect()
            let begin = "begin isolation level \(level); select count(*) from pushq.device"
            try await producer.runScript(begin)
            _ = try await send(to: "0000000000000001", queue)
            let error = await #expect(throws: PostgresError.self) { try await producer.runScript(reset) }
            #expect(error?.isContended == true)
            try await producer.runScript("rollback")
            try await producer.runScript(begin)
            try await producer.runScript("\(reset); commit")
            #expect(try await queue.number("select count(*) from pushq.badge") == 0)
        }
    }

    @Test func `is set to what makes sense, of a token or a user`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            for (arguments, problem) in [
                ("", "either a token or a user_key"),
                ("token => 'aa', user_key => 'ann'", "either a token or a user_key"),
                ("token => 'aa', badge => -1", "badge -1 is out of range: use 0 to 99999"),
                ("token => 'aa', badge => 100000", "badge 100000 is out of range"),
                ("token => 'aa', badge => null", "badge null is out of range"), ("token => 'x'", "token"),
            ] {
                let error = await #expect(throws: PostgresError.self) {
                    try await queue.run(
                        "select pushq.set_badge('\(Self.name)'\(arguments.isEmpty ? "" : ", " + arguments))")
                }
                #expect("\(try #require(error))".contains(problem), "\(arguments)")
            }
            #expect(try await queue.number("select pushq.set_badge('\(Self.name)', 'ff')") == 0, "nobody knows it")
            #expect(
                try await queue.number("select pushq.set_badge('\(Self.name)', '0000000000000001', badge => 5)") == 1)
            #expect(try await send(to: "0000000000000001", queue).contains("6"))
        }
    }
}
