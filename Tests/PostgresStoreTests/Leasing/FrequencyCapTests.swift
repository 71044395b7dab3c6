import Foundation
import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The recipients that a frequency cap holds back, compared with a judge that keeps a list of all events and searches
/// all of it each time.
@Suite(.timeLimit(.minutes(10))) struct `A frequency cap` {
    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func `lets through and holds back whom a list of all pushes says, whatever becomes of jobs and clocks`(
        seed: UInt64
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 8)
            var world = try await CappedWorld(queue, seed: seed)
            for _ in 1...150 { try await world.step() }
            try await world.endAll()
            // Checks that the random events include enough of what is tested.
            #expect(world.allowed > 20 && world.heldForGood > 5, "seed \(seed): \(world.summary)")
        }
    }

    /// Several workers send to the same devices at the same time.
    /// Claims a job and asks the cap about its recipients.
    private func askedJob(_ queue: QueueFixture, lane: Lane = .normal) async throws -> ClaimedJob {
        var job = try #require(try await queue.claim(1, lane: lane, workerID: 1).first)
        job.capAnswer = CapAnswer()
        return try #require(try await queue.worker.heldToCaps([job], workerID: 1).first)
    }

    /// Claims a push to a token that `producer` is replacing. The cap is one.
    private func jobBeingReplaced(_ database: TestDatabase) async throws -> (
        queue: QueueFixture, job: ClaimedJob, producer: PostgresConnection
    ) {
        let queue = try await QueueFixture(database)
        let register = { (token: String) in
            "select pushq.register_device('\(QueueFixture.name)', '\(token)', 'ann', installation => 'i')"
        }
        try await queue.run("insert into pushq.frequency_cap values (\(queue.id), 1, '1 day'); \(register("a1"))")
        try await queue.run(
            "select pushq.send('\(QueueFixture.name)', '{\"aps\":{\"alert\":\"x\"}}', user_key => 'ann')")
        let producer = try await database.connect()
        try await producer.runScript("begin; \(register("b2"))")
        var job = try #require(try await queue.claim(1, lane: .normal, workerID: 1).first)
        job.capAnswer = CapAnswer()
        return (queue, job, producer)
    }

    @Test func `is kept to by workers that ask at the same moment`() async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 60)
            try await queue.run("insert into pushq.frequency_cap values (\(queue.id), 3, '1 day')")
            for number in 1...12 { try await queue.fanOut(try await queue.startCampaign(key: "k\(number)")) }
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
                        let jobs = jobs.map { job in
                            var job = job
                            job.capAnswer = CapAnswer()
                            return job
                        }
                        answers += try await connection.heldToCaps(jobs, workerID: Int64(number + 1))
                    } catch {
                        problems.append("\(error)")
                    }
                    asked += 1
                }
            }
            try await eventually("twelve answers", { asked }, until: { $0 == 12 })
            #expect(problems == [])
            // A worker does not wait long for others: it asks again later.
            for (number, (connection, jobs)) in claims.enumerated() {
                let late = answers.filter { job in
                    job.capAnswer?.held.isEmpty == false && jobs.contains { $0.key == job.key }
                }
                answers.removeAll { job in late.contains { $0.key == job.key } }
                let asked = late.map { job in
                    var job = job
                    job.capAnswer = CapAnswer()
                    return job
                }
                answers += try await connection.heldToCaps(asked, workerID: Int64(number + 1))
            }
            var places: [Int64: Int] = [:]
            for job in answers {
                #expect(job.capAnswer?.wasAsked == true)
                for device in job.deviceIDs where job.capAnswer?.held[device] == nil { places[device, default: 0] += 1 }
            }
            #expect(places.count == 60 && places.values.allSatisfy { $0 == 3 }, "\(places)")
            let holds = answers.flatMap { $0.capAnswer.map { Array($0.held.values) } ?? [] }
            #expect(holds.count == 60 * 9 && !holds.contains(.forGood), "nothing has arrived yet")
        }
    }

    /// An import that gives a device to another user locks the device's places for as long as it runs.
    @Test func `waits only for the devices whose places another transaction keeps`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run("insert into pushq.frequency_cap values (\(queue.id), 5, '1 day')")
            for number in 1...2 { try await queue.fanOut(try await queue.startCampaign(key: "k\(number)")) }
            let first = try await askedJob(queue, lane: .bulk)
            #expect(first.capAnswer?.held == [:])

            let other = try await database.connect()
            let device = first.deviceIDs[1]
            try await other.runScript(
                "begin; select from pushq.recent_push where device_id = \(device) for update")
            let second = try await askedJob(queue, lane: .bulk)
            #expect(second.capAnswer?.held == [device: .until(.seconds(1))])
            let end = SettledJob(
                key: first.key, outcomes: [UInt8](repeating: Outcome.rejected(.unregistered).rawValue, count: 3),
                again: [], reports: [], notes: nil,
                capNews: first.deviceIDs.map { CapNews(deviceID: $0, hasArrived: false) })
            #expect(try await queue.worker.endJobs([end], workerID: 1).keys == [first.key])
            try await other.runScript("commit")
            // The places of two other devices were given up; the locked one remains.
            #expect(
                try await queue.texts(
                    "select cardinality(root_ids)::text from pushq.recent_push order by device_id") == ["1", "1", "1"])
            #expect(
                try await queue.number(
                    "select count(*) from pushq.recent_push where root_ids = array[\(second.rootID)::bigint]") == 2)
        }
    }

    @Test func `gives no place to a token that another one has replaced since the worker read it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("insert into pushq.frequency_cap values (\(queue.id), 1, '1 day')")
            func register(_ token: String) async throws {
                try await queue.run(
                    "select pushq.register_device('\(QueueFixture.name)', '\(token)', 'ann', installation => 'phone')")
            }
            func claim() async throws -> ClaimedJob {
                try await queue.run(
                    "select pushq.send('\(QueueFixture.name)', '{\"aps\":{\"alert\":\"x\"}}', user_key => 'ann')")
                var job = try #require(try await queue.claim(1, lane: .normal, workerID: 1).first)
                job.capAnswer = CapAnswer()
                return job
            }
            try await register("a1")
            let first = try #require(try await queue.worker.heldToCaps([try await claim()], workerID: 1).first)
            #expect(first.capAnswer?.held == [:])
            let second = try await claim()
            try await register("a2")
            let held = try #require(try await queue.worker.heldToCaps([second], workerID: 1).first)
            #expect(held.capAnswer?.held == [second.deviceIDs[0]: .until(.seconds(1))])
            #expect(
                try await queue.texts(
                    "select encode(d.token, 'hex') from pushq.recent_push r join pushq.device d on d.id = r.device_id")
                    == ["a2"])
        }
    }

    /// The state after a failover to a server with older time zone data.
    @Test(arguments: ["'Etc/GMT-12'", "'Europe/Atlantis'", "null"])
    func `counts days of the queue's zone where this server does not know the device's, and holds up nobody else`(
        defaultZone: String
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await queue.run(
                """
                insert into pushq.frequency_cap (queue_id, pushes, time_zone) values (\(queue.id), 1, \(defaultZone));
                insert into pushq.profile (queue_id, device_id, time_zone)
                select queue_id, id, case when get_byte(token, 7) = 1 then 'Europe/Atlantis' else 'UTC' end
                from pushq.device;
                insert into pushq.recent_push
                select \(queue.id), id, array[1], array[0],
                       array[pushq.day_began(now(), \(defaultZone == "'Etc/GMT-12'" ? defaultZone : "'UTC'"))]
                from pushq.device where get_byte(token, 7) = 1
                """)
            try await queue.fanOut(try await queue.startCampaign())
            let preview = #"""
                select capped from pushq.preview_campaign(
                  '\#(QueueFixture.name)', 'k2', payload => '{"aps":{"alert":"x"}}')
                """#
            #expect(try await queue.texts(preview) == ["1"])
            var job = try #require(try await queue.claim(1, workerID: 1).first)
            job.capAnswer = CapAnswer()
            let held = try #require(try await queue.worker.heldToCaps([job], workerID: 1).first)
            #expect(held.capAnswer?.held == [job.deviceIDs[0]: .forGood])
        }
    }

    @Test func `begins a calendar day when clocks in the device's zone first show it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            var random = SeededGenerator(seed: 5)
            // Zones whose clocks change at midnight, by half an hour, by a whole day, or never.
            for zone in [
                "America/Havana", "Asia/Beirut", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu",
                "Pacific/Chatham", "America/Asuncion", "Europe/Vienna", "Africa/Cairo", "UTC",
            ] {
                let rules = try #require(TimeZone(identifier: zone))
                let day = { (at: Int) in
                    Int(
                        (Double(at + rules.secondsFromGMT(for: Date(timeIntervalSince1970: Double(at)))) / 86_400)
                            .rounded(.down))
                }
                for _ in 1...60 {
                    // A time near a clock change, if there is one.
                    let some = Date(timeIntervalSince1970: Double.random(in: 1.2e9...1.7e9, using: &random))
                    let change = rules.nextDaylightSavingTimeTransition(after: some) ?? some
                    let at = Int(change.timeIntervalSince1970) + Int.random(in: -90_000...90_000, using: &random)
                    let began = try await queue.number(
                        "select extract(epoch from pushq.day_began(to_timestamp(\(at)), '\(zone)'))")
                    var naive = at / 900 * 900 - 30 * 3600
                    while day(naive) < day(at) { naive += 900 }
                    #expect(began == min(naive, at), "\(zone) at \(at)")
                }
            }
        }
    }

    @Test func `by calendar day holds a repeat back whose place is of a day that has ended, if this day's is taken`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run("insert into pushq.frequency_cap values (\(queue.id), 1)")
            try await queue.fanOut(try await queue.startCampaign(key: "late"))
            let late = try await askedJob(queue, lane: .bulk)
            #expect(late.capAnswer?.held == [:])
            // The worker is lost, and midnight passes.
            try await queue.run(
                "update pushq.recent_push set sent_at = array[pushq.day_began(now(), 'UTC') - interval '2 seconds']")
            try await queue.expireLeases()
            #expect(try await queue.worker.rescue(grace: .zero) == 1)
            try await queue.run("update pushq.job set run_at = now() + interval '1 minute'")
            try await queue.fanOut(try await queue.startCampaign(key: "early"))
            let early = try await askedJob(queue, lane: .bulk)
            #expect(early.rootID != late.rootID && early.capAnswer?.held == [:])
            _ = try await queue.worker.endJobs([queue.settled(early)], workerID: 1)
            try await queue.run("update pushq.job set run_at = now()")
            let again = try await askedJob(queue, lane: .bulk)
            #expect(again.rootID == late.rootID && again.capAnswer?.held == [again.deviceIDs[0]: .forGood])
            // So the recipient ends as unknown, and not as suppressed.
            let rule = try #require(try await queue.worker.queueSettings([queue.id]).first?.cap)
            #expect(!rule.hasCounted(messageMadeAt: .max, ago: .zero))
        }
    }

    @Test func `does not count what is dated ahead, from before the clock was corrected, and drops it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await queue.run(
                """
                insert into pushq.frequency_cap values (\(queue.id), 2, '1 day');
                insert into pushq.recent_push
                select \(queue.id), id, array[1, 2, 3], array[0, 0, 0],
                       case get_byte(token, 7)
                         when 1 then array[now() - '1 h'::interval, now() + '2 h'::interval, now() + '3 h'::interval]
                         else array[now() - '2 h'::interval, now() - '1 h'::interval, now() + '3 h'::interval] end
                from pushq.device
                """)
            try await queue.fanOut(try await queue.startCampaign())
            var job = try #require(try await queue.claim(1, workerID: 1).first)
            job.capAnswer = CapAnswer()
            let held = try #require(try await queue.worker.heldToCaps([job], workerID: 1).first)
            #expect(held.capAnswer?.held == [job.deviceIDs[1]: .forGood])
            #expect(
                try await queue.texts("select array_length(sent_at, 1) from pushq.recent_push order by device_id")
                    == ["2", "3"])
            #expect(
                try await queue.number(
                    "select count(*) from pushq.recent_push where cardinality(sent_at) = 2 and sent_at[2] <= now()")
                    == 1)
            // Old places are forgotten, even if others are dated in the future.
            try await queue.run(
                """
                update pushq.recent_push
                set sent_at[1] = now() - interval '3 days', sent_at[2] = now() - interval '2 days'
                """)
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.recent_push") == 0)
        }
    }

    @Test func `goes on when a newer token takes the place of one, and counts a push to both once`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.frequency_cap values (\(queue.id), 3, '1 day');
                select pushq.register_device('\(QueueFixture.name)', 'a1', 'ann', installation => 'i');
                select pushq.send('\(QueueFixture.name)', '{"aps":{"alert":"x"}}', array['b2']);
                insert into pushq.recent_push
                select \(queue.id), id, array[1, 2], array[0, 7], array[now() - interval '3 hours', now() - interval '1 hour']
                from pushq.device where token = '\\xa1'
                union all
                select \(queue.id), id, array[3, 2], array[0, 0], array[now() - interval '4 hours', now() - interval '2 hours']
                from pushq.device where token = '\\xb2';
                select pushq.register_device('\(QueueFixture.name)', 'b2', 'ann', installation => 'i')
                """)
            let counted = """
                select encode(d.token, 'hex') || r.root_ids::text || r.job_ids::text
                from pushq.recent_push r join pushq.device d on d.id = r.device_id
                """
            #expect(try await queue.texts(counted) == ["b2{3,1,2}{0,0,0}"])
            try await queue.run(
                "select pushq.register_device('\(QueueFixture.name)', 'c3', 'ann', installation => 'i')")
            #expect(try await queue.texts(counted) == ["c3{3,1,2}{0,0,0}"])
        }
    }

    @Test(arguments: [(true, false), (false, false), (false, true)])
    func `has the newer token's place given up or kept, as the push on its way to the older one ends`(
        arrives: Bool, isLocked: Bool
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let register = { (token: String) in
                "select pushq.register_device('\(QueueFixture.name)', '\(token)', 'ann', installation => 'i')"
            }
            try await queue.run(
                "insert into pushq.frequency_cap values (\(queue.id), 1, '1 day'); \(register("a1"))")
            let send = "select pushq.send('\(QueueFixture.name)', '{\"aps\":{\"alert\":\"x\"}}', user_key => 'ann')"
            try await queue.run(send)
            let first = try await askedJob(queue)
            #expect(first.capAnswer?.held == [:])
            try await queue.run(register("b2"))
            // If another transaction locks the row, the row does not change, and the job ends anyway.
            let other = try await database.connect()
            if isLocked { try await other.runScript("begin; select from pushq.recent_push for update") }
            let outcome = arrives ? Outcome.delivered : .rejected(.badDeviceToken)
            let end = SettledJob(
                key: first.key, outcomes: [outcome.rawValue], again: [], reports: [], notes: nil,
                capNews: [CapNews(deviceID: first.deviceIDs[0], hasArrived: arrives)])
            #expect(try await queue.worker.endJobs([end], workerID: 1).keys == [first.key])
            if isLocked { try await other.runScript("rollback") }
            try await queue.run(send)
            let second = try await askedJob(queue)
            #expect(second.capAnswer?.held == (arrives || isLocked ? [second.deviceIDs[0]: .forGood] : [:]))
        }
    }

    /// The newer token once lost the place of the push that it had got itself, and the next push was one too many.
    @Test func `keeps the place of a token that replaces another recipient of the same push, which got nothing`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = QueueFixture.name
            try await queue.run(
                """
                insert into pushq.frequency_cap values (\(queue.id), 1, '1 day');
                select pushq.register_device('\(name)', 'a1', 'ann', installation => 'i');
                select pushq.register_device('\(name)', 'b2', 'ann')
                """)
            func sendAndClaim() async throws -> ClaimedJob {
                try await queue.run(
                    "select pushq.send('\(name)', '{\"aps\":{\"alert\":\"x\"}}', user_key => 'ann')")
                return try await askedJob(queue)
            }
            let first = try await sendAndClaim()
            #expect(first.deviceIDs.count == 2 && first.capAnswer?.held == [:])
            try await queue.run("select pushq.register_device('\(name)', 'b2', 'ann', installation => 'i')")
            let end = SettledJob(
                key: first.key, outcomes: [Outcome.rejected(.unregistered).rawValue, Outcome.delivered.rawValue],
                again: [], reports: [], notes: nil,
                capNews: [CapNews(deviceID: first.deviceIDs[0], hasArrived: false)])
            #expect(try await queue.worker.endJobs([end], workerID: 1).keys == [first.key])
            let second = try await sendAndClaim()
            #expect(second.deviceIDs == [first.deviceIDs[1]])
            #expect(second.capAnswer?.held == [first.deviceIDs[1]: .forGood])
        }
    }

    /// The other recipient's job says nothing of the place, because it never took it.
    @Test func `gives up the place of a token that is replaced by a recipient of the same push in another job`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = QueueFixture.name
            try await queue.run(
                """
                insert into pushq.frequency_cap values (\(queue.id), 1, '1 day');
                select pushq.register_device('\(name)', 'a1', 'ann', installation => 'i');
                select pushq.register_device('\(name)', 'b2', 'bob');
                select pushq.send('\(name)', '{"aps":{"alert":"x"}}', user_keys => '{ann,bob}')
                """)
            let first = try await askedJob(queue)
            try await queue.run(
                """
                delete from pushq.job;
                select pushq.register_device('\(name)', 'b2', 'ann', installation => 'i')
                """)
            let end = SettledJob(
                key: first.key, outcomes: [Outcome.rejected(.unregistered).rawValue], again: [], reports: [],
                notes: nil,
                capNews: [CapNews(deviceID: first.deviceIDs[0], hasArrived: false)])
            #expect(try await queue.worker.endJobs([end], workerID: 1).keys == [first.key])
            try await queue.run("select pushq.send('\(name)', '{\"aps\":{\"alert\":\"x\"}}', user_key => 'ann')")
            #expect(try await askedJob(queue).capAnswer?.held == [:])
        }
    }

    /// A recipient that may have got a push continues in another job. As long as that waits, other pushes wait, too.
    /// - Parameter arrives: what that job says of the recipient; nil: nothing, because the newer token is somebody
    ///   else's by then, or the queue had no cap meanwhile. Then the push may have arrived.
    @Test(arguments: [true, false, nil])
    func `holds others back for now while a push that may have arrived waits for its next attempt`(arrives: Bool?)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run("insert into pushq.frequency_cap values (\(queue.id), 1, '1 day')")
            let send = "select pushq.send('\(QueueFixture.name)', '{\"aps\":{\"alert\":\"x\"}}', tokens => '{a1}')"
            func end(
                _ job: ClaimedJob, as outcome: Outcome, arrives: Bool?, losses: Int = 0, isSilent: Bool = false
            ) async throws {
                let again = ContinuingRecipient(
                    ordinal: 0, deviceID: job.deviceIDs[0], delay: .zero, attempts: 0, losses: losses)
                let end = SettledJob(
                    key: job.key, outcomes: [outcome.rawValue], again: outcome.continuesInOtherJob ? [again] : [],
                    reports: [],
                    notes: nil,
                    capNews: isSilent ? [] : [CapNews(deviceID: job.deviceIDs[0], hasArrived: arrives)])
                #expect(try await queue.worker.endJobs([end], workerID: 1).keys == [job.key])
            }
            try await queue.run(send)
            try await end(try await askedJob(queue), as: .retried(.noAnswer), arrives: nil, losses: 1)
            try await queue.run("update pushq.job set run_at = now() + interval '1 hour'")
            try await queue.run(send)
            let other = try await askedJob(queue)
            guard case .until? = other.capAnswer?.held[other.deviceIDs[0]] else {
                Issue.record("\(String(describing: other.capAnswer))")
                return
            }
            try await end(other, as: .retried(.givenBack), arrives: false)
            // Nobody waits for a campaign that is paused.
            try await queue.run("update pushq.job set run_at = 'infinity' where losses > 0")
            let beside = try await askedJob(queue)
            #expect(beside.capAnswer?.held == [beside.deviceIDs[0]: .forGood])
            try await end(beside, as: .retried(.givenBack), arrives: false)

            // The first push's next job says what became of it without having asked, as when its time has passed.
            try await queue.run(
                "update pushq.job set run_at = now() + case when losses > 0 then interval '0' else interval '1 hour' end"
            )
            let next = try #require(try await queue.claim(1, lane: .normal, workerID: 1).first)
            #expect(next.losses == 1)
            try await end(
                next, as: arrives == false ? .rejected(.badDeviceToken) : .unknown, arrives: arrives,
                isSilent: arrives == nil)
            try await queue.run("update pushq.job set run_at = now()")
            let last = try await askedJob(queue)
            #expect(last.capAnswer?.held == (arrives == false ? [:] : [last.deviceIDs[0]: .forGood]))
        }
    }

    /// The newer token is another person's, who would be held back by a push that never arrived.
    @Test func `of a phone that changes hands counts no push that is on its way`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = QueueFixture.name
            try await queue.run(
                """
                insert into pushq.frequency_cap values (\(queue.id), 3, '1 day');
                select pushq.register_device('\(name)', 'a1', 'ann', installation => 'i');
                select pushq.send('\(name)', '{"aps":{"alert":"x"}}', user_key => 'ann');
                insert into pushq.recent_push (queue_id, device_id, root_ids, job_ids, sent_at)
                select d.queue_id, d.id, array[1, 2, 3], array[0, -1, j.id], array[now(), now(), now()]
                from pushq.device d, pushq.job j;
                select pushq.register_device('\(name)', 'b2', 'carl', installation => 'i')
                """)
            let counted = "select r.root_ids::text from pushq.recent_push r where r.root_ids <> '{}'"
            #expect(try await queue.texts(counted) == ["{1}"])
        }
    }

    /// As when the token is replaced while the worker waits for its row. The place stayed at the old token, and the
    /// newer one got a push too many.
    @Test func `counts a push to a token that is replaced at the moment at which the worker takes its first place`()
        async throws
    {
        try await withDatabase { actor, database in
            let (queue, job, producer) = try await jobBeingReplaced(database)
            let asking = Task {
                _ = actor
                return try await queue.worker.heldToCaps([job], workerID: 1, patience: .seconds(20))
            }
            try await database.waitUntilBlocked("the worker", running: "hold_to_caps", on: queue.worker)
            try await producer.runScript("commit")
            let held = try #require(try await asking.value.first)
            guard case .until? = held.capAnswer?.held[job.deviceIDs[0]] else {
                Issue.record("\(String(describing: held.capAnswer))")
                return
            }
            #expect(try await queue.number("select count(*) from pushq.recent_push") == 0)
        }
    }

    /// A worker once found the token active and without a row to wait for: the newer one then got another push.
    @Test func `counts a push to a token that a transaction is replacing, as the first that it counts`() async throws {
        try await withDatabase { _, database in
            let (queue, job, producer) = try await jobBeingReplaced(database)
            let held = try #require(try await queue.worker.heldToCaps([job], workerID: 1).first)
            guard case .until? = held.capAnswer?.held[job.deviceIDs[0]] else {
                Issue.record("\(String(describing: held.capAnswer))")
                return
            }
            try await producer.runScript("commit")
            #expect(try await queue.number("select count(*) from pushq.recent_push") == 0)
        }
    }

    @Test func `forgets what it does not ask for any more, and all when it is lifted`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.run(
                """
                insert into pushq.frequency_cap values (\(queue.id), 3, '1 day');
                insert into pushq.recent_push
                select \(queue.id), id, array[id], array[0], array[now() - '12 h'::interval * (row_number() over (order by id))]
                from pushq.device;
                insert into pushq.recent_push select \(queue.id), 1000000 + i, '{}', '{}', '{}' from generate_series(1, 12000) i
                """)
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.recent_push") == 2)
            try await queue.connection.liftFrequencyCap(of: QueueFixture.name)
            try await queue.worker.forget()
            #expect(try await queue.number("select count(*) from pushq.recent_push") == 0)
        }
    }
}
