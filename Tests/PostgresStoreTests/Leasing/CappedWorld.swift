import Foundation
import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Workers that send to a few devices under a cap. Workers are lost and give jobs back, time passes, and clocks are put
/// back. A judge says what the cap allows.
struct CappedWorld: HeldJobsWorld {
    /// A push that has a place.
    private struct Push {
        let root: Int64
        /// Nil: not known yet.
        var hasArrived: Bool?
        /// The time by the database's clock. It moves back when the world's time passes.
        var at: Date
    }

    /// The judge's decision about a recipient.
    private enum Verdict: Equatable {
        case goes
        case heldForGood
        case waits
    }

    let queue: QueueFixture
    let seed: UInt64
    var random: SeededGenerator
    private let pushes: Int
    /// The period in hours; nil: by calendar day.
    private let hours: Int?
    private let rule: CapRule
    private let defaultZone: String
    private var zones: [Int64: String] = [:]
    private var history: [Int64: [Push]] = [:]
    var held: [HeldByWorker] = []
    /// The recipients of held jobs that continue in other jobs.
    private var handedOver: [LeaseKey: Set<Int>] = [:]
    private var lastHandOver: (HandOver, worker: Int64)?

    private(set) var allowed = 0
    private(set) var heldForGood = 0
    private(set) var waits = 0
    private(set) var repeats = 0
    private(set) var handOvers = 0
    var summary: String {
        "\(allowed) went, \(heldForGood) were held, \(waits) waited, \(repeats) repeats, \(handOvers) were handed over"
    }

    init(_ queue: QueueFixture, seed: UInt64) async throws {
        self.queue = queue
        self.seed = seed
        random = SeededGenerator(seed: seed)
        pushes = Int.random(in: 1...3, using: &random)
        hours = seed % 2 == 0 ? nil : Int.random(in: 2...40, using: &random)
        rule = CapRule(includesUrgent: seed % 3 == 0, setAt: 0, window: .seconds(86_400))
        defaultZone = seed % 4 == 0 ? "Asia/Kathmandu" : "UTC"
        try await queue.run(
            """
            insert into pushq.frequency_cap (queue_id, pushes, period, time_zone)
            values (\(queue.id), \(pushes), \(hours.map { "'\($0) hours'" } ?? "null"),
                    \(defaultZone == "UTC" ? "null" : "'\(defaultZone)'"));
            insert into pushq.profile (queue_id, device_id, time_zone)
            select queue_id, id, (array['Pacific/Apia', 'America/Los_Angeles', 'Australia/Lord_Howe', null])[
              1 + row_number() over (order by id) % 4]
            from pushq.device
            """)
        let rows = try await queue.connection.execute(
            Statement(
                "devices and zones",
                """
                select d.id, p.time_zone
                from pushq.device d join pushq.profile p on p.device_id = d.id
                """))
        for row in rows {
            zones[row.int8("id")] = row.optionalText("time_zone") ?? defaultZone
        }
    }

    mutating func step() async throws {
        switch Int.random(in: 0..<100, using: &random) {
        case ..<25: try await send()
        case ..<32:
            try await queue.fanOut(
                try await queue.startCampaign(key: "\(UInt64.random(in: 0 ... .max, using: &random))"))
        case ..<60: try await claim()
        case ..<75: try await end()
        case ..<79: try await giveBack()
        case ..<86: try await handOver()
        case ..<90: try await lose()
        case ..<98: try await pass(seconds: Int.random(in: 600...60_000, using: &random))
        case ..<99: try await pass(seconds: -Int.random(in: 600...7_000, using: &random))
        default: try await forget()
        }
    }

    // MARK: Events

    private mutating func send() async throws {
        let options = ["", ", urgent => true", ", push_type => 'background'"][
            [0, 0, 0, 0, 1, 2].randomElement(using: &random)!]
        let chosen = (1...8).filter { _ in Bool.random(using: &random) }
        let tokens = (chosen.isEmpty ? [1] : chosen).map { "'\(tokenHex($0))'" }.joined(separator: ",")
        let payload = options.contains("background") ? #"{"aps":{"content-available":1}}"# : #"{"aps":{"alert":"x"}}"#
        try await queue.run(
            "select pushq.send('\(QueueFixture.name)', '\(payload)', array[\(tokens)]\(options))")
    }

    private func tokenHex(_ number: Int) -> String {
        QueueFixture.token(number).map { String(format: "%02x", $0) }.joined()
    }

    mutating func claim() async throws {
        // A job that was rescued twice becomes due at a random time.
        try await queue.run("update pushq.job set run_at = now() where run_at > now() and run_at < 'infinity'")
        let worker = Int64.random(in: 1...3, using: &random)
        let count = Int32.random(in: 1...4, using: &random)
        var jobs = try await queue.claim(count, lane: .normal, workerID: worker)
        jobs += try await queue.claim(count, lane: .urgent, workerID: worker)
        jobs += try await queue.claim(count, workerID: worker)
        var asked: [ClaimedJob] = []
        for var job in jobs {
            guard rule.includes(job.message.pushType, in: job.lane) else {
                held.append(HeldByWorker(job: job, worker: worker))
                continue
            }
            job.capAnswer = CapAnswer()
            asked.append(job)
        }
        let now = try await time()
        let answered = try await queue.worker.heldToCaps(asked, workerID: worker)
        // The judge decides about one recipient after the other, as if each were the only one.
        for job in answered {
            let answer = try #require(job.capAnswer)
            for (ordinal, device) in job.deviceIDs.enumerated() where !isOver(ordinal, of: job) {
                let expected = judge(device, root: job.rootID, now: now)
                let said: Verdict
                switch answer.held[device] {
                case .forGood: said = .heldForGood
                case .until(let pause):
                    said = .waits
                    #expect(pause >= .seconds(1) && pause <= .seconds(60))
                case nil: said = .goes
                }
                #expect(
                    said == expected, "seed \(seed): device \(device), root \(job.rootID), \(history[device] ?? [])")
            }
            held.append(HeldByWorker(job: job, worker: worker))
        }
    }

    mutating func settle(_ job: ClaimedJob, allArrive: Bool) -> SettledJob {
        var outcomes = known(job)
        var again: [ContinuingRecipient] = []
        var news: [CapNews] = []
        for (ordinal, device) in job.deviceIDs.enumerated() where outcomes[ordinal] == 0 {
            var outcome: Outcome
            switch job.capAnswer?.held[device] {
            case .forGood: outcome = .capped
            case .until: outcome = .retried(.givenBack)
            case nil:
                outcome =
                    allArrive
                    ? .delivered
                    : [
                        .delivered, .delivered, .unknown, .failed(.otherTransient), .rejected(.unregistered),
                        .retried(.otherTransient),
                    ]
                    .randomElement(using: &random)!
                let hasArrived = outcome == .delivered || outcome == .unknown
                if job.capAnswer != nil {
                    if !hasArrived { news.append(CapNews(deviceID: device, hasArrived: false)) }
                    settle(device, root: job.rootID, hasArrived: hasArrived)
                }
            }
            if outcome.continuesInOtherJob {
                again.append(.init(ordinal: ordinal, deviceID: device, delay: .zero, attempts: 1, losses: 0))
            }
            outcomes[ordinal] = outcome.rawValue
        }
        // Nothing is reported for recipients that already had an outcome.
        return SettledJob(key: job.key, outcomes: outcomes, again: again, reports: [], notes: nil, capNews: news)
    }

    /// The outcomes that a worker knows of a job that it holds.
    private func known(_ job: ClaimedJob) -> [UInt8] {
        var outcomes = job.outcomes.isEmpty ? [UInt8](repeating: 0, count: job.deviceIDs.count) : job.outcomes
        for ordinal in handedOver[job.key] ?? [] { outcomes[ordinal] = Outcome.retried(.givenBack).rawValue }
        return outcomes
    }

    /// Hands recipients of a held job over to another job. The job itself is held further.
    private mutating func handOver() async throws {
        // A worker repeats what it does not know to be carried out.
        if let (last, worker) = lastHandOver, held.contains(where: { $0.job.key == last.progress.key }),
            Bool.random(using: &random)
        {
            let kept = try await queue.worker.handOver([last], workerID: worker, lease: .seconds(15), number: 1)
            #expect(kept.keys == [last.progress.key], "seed \(seed)")
            return
        }
        guard let (job, worker) = held.randomElement(using: &random).map({ ($0.job, $0.worker) }), job.losses == 0
        else { return }
        let before = known(job)
        let chosen = job.deviceIDs.indices.filter {
            before[$0] == 0 && job.capAnswer?.held[job.deviceIDs[$0]] == nil && Bool.random(using: &random)
        }
        handedOver[job.key, default: []].formUnion(chosen)
        let recipients = chosen.map {
            ContinuingRecipient(ordinal: $0, deviceID: job.deviceIDs[$0], delay: .zero, attempts: 0, losses: 0)
        }
        let news = job.capAnswer == nil ? [] : chosen.map { CapNews(deviceID: job.deviceIDs[$0], hasArrived: false) }
        let progress = LeaseProgress(key: job.key, watermark: job.deviceIDs.count, outcomes: known(job))
        let handOver = HandOver(progress: progress, recipients: recipients, capNews: news)
        lastHandOver = (handOver, worker)
        let kept = try await queue.worker.handOver(
            [handOver], workerID: worker, lease: .seconds(15), number: 1)
        #expect(kept.keys == [job.key], "seed \(seed)")
        for one in news { settle(one.deviceID, root: job.rootID, hasArrived: false) }
        handOvers += chosen.count
    }

    /// Gives jobs back after a part of each was sent.
    private mutating func giveBack() async throws {
        let taken = takeHeld()
        guard let worker = taken.first?.worker else { return }
        let leases = taken.map { interrupt($0.job) }
        #expect(try await queue.worker.yield(leases, workerID: worker).keys.count == taken.count, "seed \(seed)")
    }

    private mutating func interrupt(_ job: ClaimedJob) -> YieldedLease {
        var outcomes = known(job)
        var news: [CapNews] = []
        for (ordinal, device) in job.deviceIDs.enumerated()
        where outcomes[ordinal] == 0 && job.capAnswer?.held[device] == nil && job.losses == 0 {
            let hasArrived = Bool.random(using: &random)
            if hasArrived { outcomes[ordinal] = Outcome.delivered.rawValue }
            if job.capAnswer != nil {
                news.append(CapNews(deviceID: device, hasArrived: hasArrived))
                settle(device, root: job.rootID, hasArrived: hasArrived)
            }
        }
        let watermark = outcomes.firstIndex(of: 0) ?? outcomes.count
        return YieldedLease(
            progress: LeaseProgress(key: job.key, watermark: watermark, outcomes: outcomes), capNews: news)
    }

    /// Loses a worker with a job. What it has sent is unknown.
    private mutating func lose() async throws {
        guard let index = held.indices.randomElement(using: &random) else { return }
        let lost = held.remove(at: index)
        try await queue.expireLeases(of: lost.job)
        #expect(try await queue.worker.rescue(grace: .zero) == 1)
        // The lost worker's news comes too late and changes nothing.
        let late = lost.job.deviceIDs.map { CapNews(deviceID: $0, hasArrived: Bool.random(using: &random)) }
        try await queue.worker.note([(lost.job.key, late)], workerID: lost.worker)
    }

    private mutating func pass(seconds: Int) async throws {
        try await queue.run(
            """
            update pushq.recent_push
            set sent_at = array(select t - interval '\(seconds) seconds' from unnest(sent_at) with ordinality u(t, n) order by n)
            """)
        for device in history.keys {
            for index in history[device]!.indices { history[device]![index].at -= Double(seconds) }
        }
    }

    private mutating func forget() async throws {
        let now = try await time()
        try await queue.worker.forget()
        history = history.filter {
            $0.value.contains { now.timeIntervalSince($0.at) <= window && !Self.isAhead($0, of: now) }
        }
    }

    private func time() async throws -> Date {
        let row = try await queue.connection.execute(
            Statement("world's time", "select extract(epoch from clock_timestamp())::float8 as time")
        ).one()
        return Date(timeIntervalSince1970: row.float8("time"))
    }

    // MARK: The judge

    private mutating func judge(_ device: Int64, root: Int64, now: Date) -> Verdict {
        let pushes = (history[device] ?? []).filter { now.timeIntervalSince($0.at) <= window }
        if pushes.contains(where: { $0.root == root && counts($0, for: device, at: now) }) {
            repeats += 1
            note(root, of: device, at: now)
            return .goes
        }
        let counting = pushes.filter { counts($0, for: device, at: now) && !Self.isAhead($0, of: now) }
        if counting.count < self.pushes {
            allowed += 1
            note(root, of: device, at: now)
            return .goes
        }
        if counting.count(where: { $0.hasArrived == true }) >= self.pushes {
            heldForGood += 1
            return .heldForGood
        }
        waits += 1
        return .waits
    }

    /// Whether a push counts for the cap. In a rolling period, a push counts for ten more seconds, in which it may have
    /// been sent. For a calendar day, it counts if its day in the device's zone is today or later.
    private func counts(_ push: Push, for device: Int64, at now: Date) -> Bool {
        if let hours { return now.timeIntervalSince(push.at) <= Double(hours) * 3600 + 10 }
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = TimeZone(identifier: zones[device]!)!
        return calendar.startOfDay(for: push.at) >= calendar.startOfDay(for: now)
    }

    /// Whether a push is dated in the future because clocks were put back. Such a push does not count.
    private static func isAhead(_ push: Push, of now: Date) -> Bool { push.at.timeIntervalSince(now) > 60 }

    /// Records a push, and forgets pushes that are too old to count or dated in the future. No later change of clocks
    /// brings them back.
    private mutating func note(_ root: Int64, of device: Int64, at now: Date) {
        let window = window
        history[device, default: []].removeAll {
            $0.root == root || now.timeIntervalSince($0.at) > window || Self.isAhead($0, of: now)
        }
        history[device]!.append(Push(root: root, hasArrived: nil, at: now))
    }

    /// The age from which a push is forgotten, in seconds. A repetition of an older push counts as a new push.
    private var window: Double { hours.map { Double($0) * 3600 + 10 } ?? 2 * 86_400 }

    private mutating func settle(_ device: Int64, root: Int64, hasArrived: Bool) {
        guard let index = history[device]?.firstIndex(where: { $0.root == root }) else { return }
        if hasArrived { history[device]![index].hasArrived = true } else { history[device]!.remove(at: index) }
    }
}
