import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Ending jobs` {
    @Test func `records results and counts, once`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 700)
            try await queue.fanOut(try await queue.startCampaign())
            let jobs = try await queue.claim()
            #expect(jobs.count == 2)
            let settled = jobs.map {
                queue.settled(
                    $0, other: [0: .suppressed, 1: .expired, 2: .cancelled, 3: .unknown, 4: .failed(.otherTransient)])
            }
            #expect(try await queue.worker.endJobs(settled, workerID: 1).keys == Set(jobs.map(\.key)))
            // The first answer may be lost; the same statement again changes nothing.
            #expect(try await queue.worker.endJobs(settled, workerID: 1).keys.isEmpty)

            let progress = try await queue.connection.execute(
                Statement("progress", "select * from pushq.campaign_progress")
            ).one()
            #expect(progress.count("total") == 700)
            #expect(progress.count("delivered") == 690)
            for kind: StaticString in ["suppressed", "expired", "cancelled", "unknown", "failed"] {
                #expect(progress.count(kind) == 2, "\(kind)")
            }
            #expect(progress.count("waiting") == 0)
            #expect(progress.bool("finished"))
            #expect(try await queue.number("select sum(delivered) from pushq.result") == 690)
            #expect(try await queue.number("select count(*) from pushq.lease") == 0)
        }
    }

    @Test func `gathers what is sent again across jobs, one job for each delay and attempt`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1500)
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            let jobs = try await queue.claim()
            let settled = jobs.map { job in
                queue.settled(
                    job, other: [7: .retried(.otherTransient), 9: .retried(.otherTransient), 11: .retried(.noAnswer)],
                    again: [
                        .init(ordinal: 7, deviceID: job.deviceIDs[7], delay: .seconds(3), attempts: 1, losses: 0),
                        .init(ordinal: 9, deviceID: job.deviceIDs[9], delay: .seconds(3), attempts: 1, losses: 0),
                        .init(ordinal: 11, deviceID: job.deviceIDs[11], delay: .zero, attempts: 0, losses: 2, group: 1),
                    ])
            }
            _ = try await queue.worker.endJobs(settled, workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.job") == 2)
            #expect(try await queue.number("select count(*) from pushq.job where run_at > now() + interval '2 s'") == 1)

            let now = try await queue.claim()
            #expect(now.map(\.attempt) == [1])
            #expect(now.map(\.losses) == [2])
            #expect(now.map(\.deviceIDs.count) == [3])
            try await queue.run("update pushq.job set run_at = now()")
            let later = try #require(try await queue.claim().first)
            #expect(later.attempt == 2)
            #expect(later.deviceIDs.count == 6)
            #expect(later.rootID == campaign)
            #expect(later.previousWatermark == 0)
            #expect(try await queue.number("select retried from pushq.campaign_tally") == 9)
            #expect(try await queue.number("select waiting from pushq.campaign_progress") == 9)
        }
    }

    @Test func `sends nothing again after its time has ended, and is ended then`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            for (index, end) in ["send_by => now() + interval '1 minute'", "expiration => expires()", ""].enumerated() {
                let expiration = "extract(epoch from now() + interval '1 minute')::bigint"
                let options = end.isEmpty ? "" : ", " + end.replacing("expires()", with: expiration)
                try await queue.fanOut(try await queue.startCampaign(key: "k\(index)", options: options))
            }
            let jobs = try await queue.claim()
            let settled = jobs.map { job in
                queue.settled(
                    job, other: [0: .retried(.otherTransient)],
                    again: [.init(ordinal: 0, deviceID: job.deviceIDs[0], delay: .seconds(120), attempts: 1, losses: 0)]
                )
            }
            #expect(try await queue.worker.endJobs(settled, workerID: 1).keys.count == 3)
            let delays = try await queue.texts(
                "select round(extract(epoch from run_at - now()) / 60) from pushq.job order by root_id")
            #expect(delays == ["1", "1", "2"])
        }
    }

    /// A worker holds the job while it is cancelled, and has decided before to send to some recipients again.
    @Test(arguments: [
        "cancel_campaign(queue, 'k')", "cancel(queue, root)", "cancel_job(queue, job)",
        "cancel_jobs(queue, array[job])",
    ])
    func `sends nothing of what was cancelled again, and does not wait for the time of the next attempt`(cancel: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let isSend = cancel.hasPrefix("cancel(")
            if isSend {
                let payload = #"{"aps":{"alert":"x"}}"#
                try await queue.run(
                    "select pushq.send('\(QueueFixture.name)', '\(payload)', tokens => array['aa', 'bb', 'cc'])")
            } else {
                try await queue.fanOut(try await queue.startCampaign())
            }
            let lane = isSend ? Lane.normal : .bulk
            let job = try #require(try await queue.claim(lane: lane).first)
            let call = cancel.replacing("queue", with: "'\(QueueFixture.name)'")
                .replacing("root", with: "\(job.rootID)").replacing("job)", with: "\(job.key.jobID))")
                .replacing("job]", with: "\(job.key.jobID)]")
            try await queue.run("select pushq.\(call)")
            let settled = queue.settled(
                job, other: [0: .retried(.otherTransient)],
                again: [.init(ordinal: 0, deviceID: job.deviceIDs[0], delay: .seconds(600), attempts: 1, losses: 0)])
            #expect(try await queue.worker.endJobs([settled], workerID: 1).keys.count == 1)
            let rest = try #require(try await queue.claim(lane: lane).first, "it is due at once")
            #expect(rest.isCancelled && rest.deviceIDs == [job.deviceIDs[0]])
        }
    }

    /// The job's end was not yet visible to the cancellation, nor the cancellation to it.
    @Test func `lets a campaign be cancelled again, which ends what the first cancellation did not see`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.fanOut(try await queue.startCampaign())
            try await queue.run("select pushq.cancel_campaign('\(QueueFixture.name)', 'k')")
            try await queue.run("update pushq.job set run_at = now() + interval '1 hour'")
            #expect(try await queue.claim().isEmpty)
            let again = try await queue.texts("select pushq.cancel_campaign('\(QueueFixture.name)', 'k')")
            #expect(again == ["false"])
            #expect(try await queue.claim().map(\.isCancelled) == [true])
        }
    }

    @Test func `a dead token is deactivated unless it registered again later`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 4)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            let now = Int64(try await queue.number("select extract(epoch from now()) * 1000000"))
            let registered = [now - 5_000_000, now + 5_000_000, now, now + 1]
            for (device, time) in zip(job.deviceIDs, registered) {
                try await queue.run(
                    """
                    update pushq.device set registered_at = 'epoch'::timestamptz + \(time) * interval '1 microsecond'
                    where id = \(device)
                    """)
            }
            let reports = job.deviceIDs.map {
                SettledJob.DeviceReport(deviceID: $0, reason: .unregistered, reportedAt: now, sentAt: .now)
            }
            let outcomes = Dictionary(uniqueKeysWithValues: (0..<4).map { ($0, Outcome.rejected(.unregistered)) })
            _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes, reports: reports)], workerID: 1)

            let inactive = try await queue.connection.execute(
                Statement("inactive", "select id, inactive_reason from pushq.device where not active order by id"))
            #expect(inactive.map { $0.int8("id") } == [job.deviceIDs[0], job.deviceIDs[2]])
            #expect(inactive.allSatisfy { $0.int2("inactive_reason") == Int16(Reason.unregistered.code) })
            #expect(try await queue.number("select count(*) from pushq.feedback where verdict = 'deactivated'") == 2)
            #expect(try await queue.number("select count(*) from pushq.feedback where verdict = 'kept'") == 2)
        }
    }

    @Test func `deactivates a device whose registration is dated ahead, from before the clock was corrected`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            try await queue.run(
                """
                update pushq.device set registered_at = now() + interval '3 hours'
                where id = \(job.deviceIDs[0]);
                update pushq.device set reactivated_at = now() + interval '3 hours'
                where id = \(job.deviceIDs[1])
                """)
            let reports = job.deviceIDs.map {
                SettledJob.DeviceReport(deviceID: $0, reason: .unregistered, reportedAt: nil, sentAt: .now)
            }
            let outcomes = Dictionary(uniqueKeysWithValues: (0..<2).map { ($0, Outcome.rejected(.unregistered)) })
            _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes, reports: reports)], workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 2)
        }
    }

    /// The same answer for the maximum number of recipients of a statement.
    enum SameAnswer: CaseIterable {
        case dead, bad, busy
    }

    /// A statement has ten seconds. When it compared each report with each other report, it never finished, and all
    /// pushes were sent again. Other tests take its time here, so what counts is the time in which it works.
    @Test(.serialized, arguments: SameAnswer.allCases)
    func `ends as many jobs as it may be about within its time, whatever the answers were`(_ answer: SameAnswer)
        async throws
    {
        try await withDatabase { _, database in
            let jobCount = 128
            let queue = try await QueueFixture(database, devices: jobCount * SettledJob.maximumRecipients)
            try await queue.fanOut(try await queue.startCampaign())
            let jobs = try await queue.claim(Int32(jobCount))
            #expect(jobs.count == jobCount)
            let reason: Reason = answer == .dead ? .unregistered : .badDeviceToken
            let settled = jobs.map { job in
                let outcome: Outcome = answer == .busy ? .retried(.named("TooManyRequests")) : .rejected(reason)
                let reports = job.deviceIDs.map {
                    SettledJob.DeviceReport(deviceID: $0, reason: reason, reportedAt: nil, sentAt: .now)
                }
                let again = job.deviceIDs.indices.map {
                    ContinuingRecipient(
                        ordinal: $0, deviceID: job.deviceIDs[$0], delay: .seconds(1), attempts: 1, losses: 0, group: 0)
                }
                return queue.settled(
                    job, other: Dictionary(uniqueKeysWithValues: job.deviceIDs.indices.map { ($0, outcome) }),
                    again: answer == .busy ? again : [], reports: answer == .busy ? [] : reports)
            }
            let backend = queue.worker.backendProcessID
            let before = try #require(ProcessTimes(of: backend)).cpu
            let ended = try await queue.worker.transaction(within: .seconds(60)) {
                try await queue.worker.endJobs(settled, workerID: 1)
            }
            #expect(try #require(ProcessTimes(of: backend)).cpu - before < .seconds(10))
            #expect(ended.keys.count == jobCount)
            let recipients = jobCount * SettledJob.maximumRecipients
            let inactive = try await queue.number("select count(*) from pushq.device where not active")
            #expect(inactive == (answer == .dead ? recipients : 0))
            let verdict = answer == .dead ? "deactivated" : "suspect"
            let evidence = try await queue.number("select count(*) from pushq.feedback where verdict = '\(verdict)'")
            #expect(evidence == (answer == .busy ? 0 : recipients))
            let waiting = try await queue.number("select coalesce(sum(recipient_count), 0) from pushq.job")
            #expect(waiting == (answer == .busy ? recipients : 0))
        }
    }

    @Test(arguments: ["commit", "rollback"])
    func `deactivates a device that somebody is registering when that is done, unless it has registered`(_ end: String)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            let campaign = try await queue.startCampaign()
            try await queue.fanOut(campaign)
            let job = try #require(try await queue.claim().first)
            let died = Int64(try await queue.number("select extract(epoch from now() - interval '1 day') * 1000000"))
            let producer = try await database.connect()
            try await producer.runScript(
                """
                begin;
                select pushq.register_device('\(QueueFixture.name)', encode(token, 'hex'))
                from pushq.device where id = \(job.deviceIDs[1]);
                """)
            let reports = job.deviceIDs.map {
                SettledJob.DeviceReport(deviceID: $0, reason: .named("ExpiredToken"), reportedAt: died, sentAt: .now)
            }
            let outcomes = Dictionary(
                uniqueKeysWithValues: (0..<3).map { ($0, Outcome.rejected(.named("ExpiredToken"))) })
            _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes, reports: reports)], workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.device where active") == 1)
            #expect(
                try await queue.number("select count(*) from pushq.feedback") == 2, "nothing is decided of the third")
            #expect(try await queue.worker.actOnFeedback().acted == 0, "it is not waited for")

            try await producer.runScript(end)
            let isRegistered = end == "commit"
            #expect(try await queue.worker.actOnFeedback() == (acted: 1, deactivated: isRegistered ? 0 : 1))
            let evidence = try await queue.connection.execute(
                Statement(
                    "evidence",
                    """
                    select f.verdict, f.reason, f.root_id, f.job_id, d.active,
                           (extract(epoch from f.reported_at) * 1000000)::bigint as reported_at
                    from pushq.feedback f
                    join pushq.device d on d.queue_id = f.queue_id and d.id = f.device_id
                    where f.device_id = \(job.deviceIDs[1])
                    """)
            ).one()
            #expect(evidence.text("verdict") == (isRegistered ? "kept" : "deactivated"))
            #expect(evidence.bool("active") == isRegistered)
            #expect(evidence.int2("reason") == Int16(Reason.named("ExpiredToken").code))
            #expect(evidence.int8("reported_at") == died)
            #expect(evidence.int8("root_id") == campaign)
            #expect(evidence.int8("job_id") == job.key.jobID)
        }
    }

    @Test func `deactivates a device that no app has registered, however long ago its token died`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let payload = #"'{"aps":{"alert":"x"}}'"#
            try await queue.run(
                """
                select pushq.send('\(QueueFixture.name)', \(payload), tokens => '{aa}');
                select pushq.start_campaign('\(QueueFixture.name)', 'listed', \(payload), array['bb']);
                select pushq.register_device('\(QueueFixture.name)', 'cc');
                """)
            #expect(try await queue.number("select count(*) from pushq.device where registered_at is not null") == 1)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first { $0.deviceIDs.count == 3 })
            let monthAgo = try await queue.number("select extract(epoch from now() - interval '30 days') * 1000000")
            let reports = job.deviceIDs.map {
                SettledJob.DeviceReport(deviceID: $0, reason: .unregistered, reportedAt: Int64(monthAgo), sentAt: .now)
            }
            let outcomes = Dictionary(uniqueKeysWithValues: (0..<3).map { ($0, Outcome.rejected(.unregistered)) })
            _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes, reports: reports)], workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.device where not active") == 2)
            #expect(try await queue.number("select count(*) from pushq.device where active and token = '\\xcc'") == 1)
        }
    }

    @Test func `a dead token is deactivated though a later answer only called it bad`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            for key in ["first", "second"] { try await queue.fanOut(try await queue.startCampaign(key: key)) }
            let jobs = try await queue.claim()
            let died = Int64(try await queue.number("select extract(epoch from now() - interval '1 day') * 1000000"))
            let reports = [
                SettledJob.DeviceReport(
                    deviceID: jobs[0].deviceIDs[0], reason: .unregistered, reportedAt: died, sentAt: .now),
                SettledJob.DeviceReport(
                    deviceID: jobs[0].deviceIDs[0], reason: .named("BadDeviceToken"), reportedAt: nil, sentAt: .now),
            ]
            let settled = zip(jobs, reports).map { job, report in
                queue.settled(job, other: [0: .rejected(report.reason)], reports: [report])
            }
            _ = try await queue.worker.endJobs(settled, workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.device where active") == 0)
            let verdicts = Statement("verdicts", "select verdict from pushq.feedback order by verdict")
            #expect(
                try await queue.connection.execute(verdicts).map { $0.text("verdict") } == ["deactivated", "suspect"])
        }
    }

    @Test func `a report without a time, or of the future, is of the moment of sending`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 4)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            // The pushes were sent a minute ago. Two devices have registered since, two before.
            for (device, seconds) in zip(job.deviceIDs, [30, 30, 90, 90]) {
                try await queue.run(
                    "update pushq.device set registered_at = now() - interval '\(seconds) s' where id = \(device)")
            }
            let tomorrow = Int64(try await queue.number("select extract(epoch from now()) * 1000000")) + 86_400_000_000
            let reports = zip(job.deviceIDs, [nil, tomorrow, nil, tomorrow]).map {
                SettledJob.DeviceReport(
                    deviceID: $0, reason: .unregistered, reportedAt: $1, sentAt: .now - .seconds(60))
            }
            let outcomes = Dictionary(uniqueKeysWithValues: (0..<4).map { ($0, Outcome.rejected(.unregistered)) })
            _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes, reports: reports)], workerID: 1)
            #expect(try await queue.number("select count(*) from pushq.device where active") == 2)
            #expect(
                try await queue.number(
                    "select count(*) from pushq.device where not active and id = any ('{\(job.deviceIDs[2]),\(job.deviceIDs[3])}')"
                )
                    == 2)
            #expect(
                try await queue.number(
                    """
                    select count(*) from pushq.feedback
                    where reported_at between now() - interval '2 minutes' and now() - interval '59 s'
                    """) == 4)
        }
    }

    @Test func `does not deactivate a device that was brought back by hand since, though it was still active`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            let sentAt = Int64(try await queue.number("select extract(epoch from now()) * 1000000")) - 1
            let tokens = try (1...3).map { try DeviceToken(bytes: [0, 0, 0, 0, 0, 0, 0, $0]) }
            // One device is activated by the command, one by an import, and one not at all.
            #expect(
                try await queue.connection.setDevice(tokens[0], inQueue: QueueFixture.name, isActive: true)
                    == .unchanged
            )
            let devices = DeviceFile.text("token\n\(tokens[1].hex)\n")
            _ = try await queue.connection.importDevices(
                from: devices, inQueue: QueueFixture.name, reactivates: true
            ) { _ in }
            let reports = job.deviceIDs.map {
                SettledJob.DeviceReport(deviceID: $0, reason: .unregistered, reportedAt: sentAt, sentAt: .now)
            }
            let outcomes = Dictionary(uniqueKeysWithValues: (0..<3).map { ($0, Outcome.rejected(.unregistered)) })
            _ = try await queue.worker.endJobs([queue.settled(job, other: outcomes, reports: reports)], workerID: 1)
            for (token, isActive) in zip(tokens, [true, true, false]) {
                let device = try await queue.connection.device(token, inQueue: QueueFixture.name)
                #expect(device?.isActive == isActive)
                #expect(device?.registeredAt == nil, "only the app's own report is a registration")
            }
        }
    }

    @Test func `keeps the raw text of a reason that nobody knows`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.fanOut(try await queue.startCampaign())
            let job = try #require(try await queue.claim().first)
            let settled = SettledJob(
                key: job.key, outcomes: [Outcome.rejected(.other).rawValue], again: [], reports: [],
                notes: #"{"0": "SomethingNew"}"#)
            _ = try await queue.worker.endJobs([settled], workerID: 1)
            #expect(
                try await queue.number("select count(*) from pushq.result where notes ->> '0' = 'SomethingNew'") == 1)
        }
    }
}
