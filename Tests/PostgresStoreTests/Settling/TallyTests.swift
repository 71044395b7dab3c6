import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Workers and an operator act at random while their sessions are killed.
@Suite(.timeLimit(.minutes(10))) struct `The counts of campaigns` {
    private static let keys = ["a", "b", "c"]
    private static let devices = 300

    /// The number of campaigns whose total is not the sum of what has ended, waits and is held. One statement sees one
    /// instant.
    ///
    /// A recipient with an outcome from 192 on continues in another job, and waits there.
    private static let unbalanced = """
        select count(*)
        from pushq.campaign_progress p
        where p.waiting <> (
          select count(*)
          from (
            select queue_id, campaign_id, recipient_count, outcomes from pushq.job
            union all
            select queue_id, campaign_id, recipient_count, outcomes from pushq.lease) j
          cross join lateral generate_series(0, j.recipient_count - 1) n
          where j.queue_id = p.queue_id and j.campaign_id = p.campaign_id
            and (j.outcomes is null or get_byte(j.outcomes, n) = 0))
        """

    /// The number of recipients without exactly one final outcome.
    private static let notOnce = """
        select count(*)
        from (
          select r.root_id, d.id,
                 count(*) filter (where o < 192 and not (o between 128 and 191 and r.retried_at is not null)) as ends
          from pushq.result r
          join pushq.body b on b.day = r.body_day and b.queue_id = r.queue_id and b.job_id = r.job_id
          cross join lateral unnest(b.device_ids) with ordinality d(id, n)
          cross join lateral get_byte(r.outcomes, d.n::int - 1) o
          group by r.root_id, d.id) x
        where ends <> 1
        """

    @Test func `add up at every instant, whatever is done and whoever is killed, and everybody ends once`() async throws
    {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: Self.devices)
            try await queue.run(
                "insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 5, 1 from pushq.queue where id = \(queue.id)"
            )
            for key in Self.keys { _ = try await queue.startCampaign(key: key) }
            let end = ContinuousClock.now + .seconds(8)
            var playing: [Task<Int, any Error>] = []
            for workerID in 1...3 {
                let player = CarelessWorker(database, queue, workerID: Int64(workerID))
                playing.append(
                    Task {
                        _ = actor
                        return try await player.play(until: end)
                    })
            }
            let boss = CarelessOperator(database, keys: Self.keys)
            playing.append(
                Task {
                    _ = actor
                    return try await boss.play(until: end)
                })
            let killer = try await database.connect()
            var looks = 0
            while ContinuousClock.now < end {
                #expect(try await queue.number(Self.unbalanced) == 0)
                looks += 1
                guard looks.isMultiple(of: 5) else { continue }
                try await killer.runScript(
                    """
                    select pg_terminate_backend(pid) from pg_stat_activity
                    where datname = current_database() and application_name = 'careless' order by random() limit 1
                    """)
            }
            for player in playing { #expect(try await player.value > 10, "it did next to nothing") }
            #expect(looks > 50)

            try await Self.bringToAnEnd(queue)
            #expect(try await queue.number(Self.unbalanced) == 0)
            #expect(try await queue.number("select count(*) from pushq.campaign_progress where not finished") == 0)
            #expect(try await queue.number(Self.notOnce) == 0)
            #expect(
                try await queue.number("select count(*) from pushq.campaign_progress where total <> \(Self.devices)")
                    == 0)
        }
    }

    private static func bringToAnEnd(_ queue: QueueFixture) async throws {
        for key in keys { try await queue.run("select pushq.resume_campaign('\(QueueFixture.name)', '\(key)')") }
        for campaign in 0..<keys.count {
            try await queue.fanOut(
                Int64(try await queue.number("select id from pushq.campaign order by id offset \(campaign) limit 1")))
        }
        try await queue.expireLeases()
        while try await queue.worker.rescue(grace: .zero) > 0 {}
        #expect(try await queue.number("select count(*) from pushq.job where run_at = 'infinity'") == 0)
        try await queue.run("update pushq.job set run_at = now()")
        while case let jobs = try await queue.claim(50), !jobs.isEmpty {
            let settled = jobs.map { job in
                let continuing = job.outcomes.enumerated().map { ($0, Outcome(rawValue: $1)) }.filter {
                    $0.1.continuesInOtherJob
                }
                return queue.settled(job, other: Dictionary(uniqueKeysWithValues: continuing))
            }
            _ = try await queue.worker.endJobs(settled, workerID: 1)
        }
    }
}

/// A client that does one thing at a time, and opens another session when its session was killed.
private class CarelessPlayer {
    private let database: TestDatabase
    private var connection: PostgresConnection?

    init(_ database: TestDatabase) { self.database = database }

    /// Returns the number of successful actions.
    func play(until end: ContinuousClock.Instant) async throws -> Int {
        var count = 0
        while ContinuousClock.now < end {
            do {
                let open =
                    if let connection, connection.isOpen { connection } else {
                        try await database.connect(as: "careless")
                    }
                connection = open
                try await step(open)
                count += 1
            } catch let error as PostgresError {
                guard error.isTransient else { throw error }
            }
        }
        return count
    }

    func step(_ store: PostgresConnection) async throws { preconditionFailure("subclasses do something") }
}

private final class CarelessWorker: CarelessPlayer {
    private let queue: QueueFixture
    private let workerID: Int64
    private var held: [ClaimedJob] = []
    /// Jobs whose end may have been written. They are written again.
    private var inDoubt: [SettledJob] = []
    /// The recipients of held jobs that continue in other jobs, and whether it is certain that they do.
    private var handedOver: [LeaseKey: (recipients: Set<Int>, isCertain: Bool)] = [:]

    init(_ database: TestDatabase, _ queue: QueueFixture, workerID: Int64) {
        self.queue = queue
        self.workerID = workerID
        super.init(database)
    }

    override func step(_ store: PostgresConnection) async throws {
        switch Int.random(in: 0..<14) {
        case 0:
            let campaign = try await store.execute(
                Statement("any", "select id from pushq.campaign order by random() limit 1"))
            _ = try await store.fanOutStep(
                queueID: queue.id, campaignID: campaign.one().int8("id"), jobLimit: 3, scanLimit: 40)
        case 1...4:
            let quota = ClaimQuota(queueID: queue.id, lane: .bulk, jobs: 3)
            held += try await store.claim([quota], workerID: workerID, lease: .milliseconds(200), atMostOnceWindow: 2)
        case 5:
            let flushed = held.filter { handedOver[$0.key]?.isCertain != false }
            let progress = flushed.map {
                LeaseProgress(key: $0.key, watermark: 1, outcomes: outcomes(of: $0, zeros: true))
            }
            let kept = try await store.flush(progress, workerID: workerID, lease: .milliseconds(200), number: 1)
            held.removeAll { job in flushed.contains { $0.key == job.key } && !kept.keys.contains(job.key) }
        case 12...13:
            let jobs = held.suffix(3).filter { handedOver[$0.key] == nil }
            for job in jobs {
                let recipients = Set(job.deviceIDs.indices.filter { _ in Bool.random() }).subtracting(elsewhere(job))
                handedOver[job.key] = (recipients, false)
            }
            let handOvers = jobs.map { job in
                HandOver(
                    progress: LeaseProgress(key: job.key, watermark: 1, outcomes: outcomes(of: job, zeros: true)),
                    recipients: again(handedOver[job.key]!.recipients, of: job))
            }
            let kept = try await store.handOver(
                handOvers, workerID: workerID, lease: .milliseconds(200), number: 1)
            for key in kept.keys { handedOver[key]!.isCertain = true }
        case 6:
            guard let job = held.popLast(), handedOver[job.key]?.isCertain != false else { return }
            let progress = LeaseProgress(key: job.key, watermark: 0, outcomes: outcomes(of: job, zeros: true))
            try await store.yield([YieldedLease(progress: progress)], workerID: workerID)
        case 7: _ = try await store.rescue(grace: .zero)
        case 8: _ = try await store.endJobs(inDoubt, workerID: workerID)
        default:
            inDoubt = held.prefix(4).map(settled)
            held.removeFirst(inDoubt.count)
            _ = try await store.endJobs(inDoubt, workerID: workerID)
        }
    }

    /// Random outcomes of all kinds. Retries are limited, so that jobs come to an end.
    private func outcomes(of job: ClaimedJob, zeros: Bool) -> [UInt8] {
        let ends: [Outcome] = [
            .delivered, .delivered, .delivered, .suppressed, .expired, .unknown, .rejected(.unregistered),
            .failed(.otherTransient), zeros ? .waiting : .retried(.otherTransient),
        ]
        let continuing = elsewhere(job).union(handedOver[job.key]?.recipients ?? [])
        return job.deviceIDs.indices.map { ordinal in
            if continuing.contains(ordinal) { return Outcome.retried(.givenBack).rawValue }
            return (job.attempt < 20 ? ends : ends.dropLast()).randomElement()!.rawValue
        }
    }

    /// The recipients that an earlier holder has handed over.
    private func elsewhere(_ job: ClaimedJob) -> Set<Int> {
        Set(job.outcomes.indices.filter { Outcome(rawValue: job.outcomes[$0]).continuesInOtherJob })
    }

    private func again(_ recipients: Set<Int>, of job: ClaimedJob) -> [ContinuingRecipient] {
        recipients.sorted().map {
            ContinuingRecipient(
                ordinal: $0, deviceID: job.deviceIDs[$0], delay: .zero, attempts: 1, losses: 0,
                group: Int.random(in: 0...1))
        }
    }

    private func settled(_ job: ClaimedJob) -> SettledJob {
        let outcomes = outcomes(of: job, zeros: false)
        var continuing = Set(outcomes.indices.filter { Outcome(rawValue: outcomes[$0]).continuesInOtherJob })
        continuing.subtract(elsewhere(job))
        if let known = handedOver[job.key], known.isCertain { continuing.subtract(known.recipients) }
        let again = again(continuing, of: job)
        let reports = zip(job.deviceIDs, outcomes).filter { Outcome(rawValue: $0.1).kind == .rejected }.map {
            SettledJob.DeviceReport(deviceID: $0.0, reason: .named("BadDeviceToken"), reportedAt: nil, sentAt: .now)
        }
        return SettledJob(key: job.key, outcomes: outcomes, again: again, reports: reports, notes: nil)
    }
}

private final class CarelessOperator: CarelessPlayer {
    private let keys: [String]

    init(_ database: TestDatabase, keys: [String]) {
        self.keys = keys
        super.init(database)
    }

    override func step(_ store: PostgresConnection) async throws {
        let order = ["pause_campaign", "resume_campaign", "resume_campaign", "retry_failed_campaign"].randomElement()!
        try await store.runScript("select pushq.\(order)('\(QueueFixture.name)', '\(keys.randomElement()!)')")
    }
}
