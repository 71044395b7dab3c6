import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

/// Workers that send messages with badge increments to a few devices. Workers are lost and give jobs back, and apps
/// reset their badges. A judge counts along.
struct BadgedWorld: HeldJobsWorld {
    let queue: QueueFixture
    let seed: UInt64
    var random: SeededGenerator
    private var devices: [Int64: Int] = [:]
    var held: [HeldByWorker] = []
    /// The badge increment of each message.
    private var increments: [Int64: Int] = [:]
    /// For each device, the count, and the badge that it was sent first with each message.
    private var counts: [Int64: Int] = [:]
    private var figures: [Int64: [Int64: Int]] = [:]

    private(set) var taken = 0
    private(set) var repeats = 0
    private(set) var givenBack = 0
    private(set) var resets = 0
    var summary: String { "\(taken) were taken, \(repeats) again, \(givenBack) given back, \(resets) resets" }

    init(_ queue: QueueFixture, seed: UInt64) async throws {
        self.queue = queue
        self.seed = seed
        random = SeededGenerator(seed: seed)
        let rows = try await queue.connection.execute(
            Statement("numbered devices", "select id, get_byte(token, 7) as number from pushq.device"))
        for row in rows { devices[row.int8("id")] = Int(row.int4("number")) }
        try await queue.run("update pushq.device set user_key = 'user' || get_byte(token, 7) / 3")
    }

    mutating func step() async throws {
        switch Int.random(in: 0..<100, using: &random) {
        case ..<25: try await send()
        case ..<55: try await claim()
        case ..<78: try await end()
        case ..<84: try await giveBack()
        case ..<92: try await lose()
        default: try await reset()
        }
    }

    /// Ends all jobs, and compares the stored counts with the judge's.
    mutating func finish() async throws {
        try await endAll()
        let stored = try await queue.connection.execute(
            Statement("counts", "select device_id, count from pushq.badge where count > 0"))
        let found = Dictionary(uniqueKeysWithValues: stored.map { ($0.int8("device_id"), Int($0.int4("count"))) })
        #expect(found == counts.filter { $0.value > 0 }, "seed \(seed)")
    }

    // MARK: Events

    private mutating func send() async throws {
        let chosen = (1...8).filter { _ in Bool.random(using: &random) }
        let tokens = (chosen.isEmpty ? [1] : chosen).map { "'\(Self.hex($0))'" }.joined(separator: ",")
        let increment = [1, 1, 1, 2, 99].randomElement(using: &random)!
        let badge = Int.random(in: 0..<8, using: &random) == 0 ? "7" : #"{"increment": \#(increment)}"#
        let root = try await queue.number(
            #"select pushq.send('\#(QueueFixture.name)', '{"aps":{"alert":"x","badge":\#(badge)}}', array[\#(tokens)])"#
        )
        increments[Int64(root)] = badge == "7" ? nil : increment
    }

    private static func hex(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    mutating func claim() async throws {
        try await queue.run("update pushq.job set run_at = now() where run_at > now()")
        let worker = Int64.random(in: 1...3, using: &random)
        let jobs = try await queue.claim(Int32.random(in: 1...4, using: &random), lane: .normal, workerID: worker)
        let ready = try await queue.worker.takingBadges(jobs, workerID: worker)
        #expect(ready.count == jobs.count, "seed \(seed)")
        let first = ready.map { job in job.deviceIDs.indices.map { isOver($0, of: job) ? nil : count($0, of: job) } }
        for (job, first) in zip(ready, first) {
            #expect(job.badgeIncrement == increments[job.rootID], "seed \(seed)")
            for (ordinal, device) in job.deviceIDs.enumerated() where !isOver(ordinal, of: job) {
                var payload: [UInt8] = []
                job.personal?.join(for: ordinal, into: &payload)
                guard increments[job.rootID] != nil else {
                    #expect(job.personal == nil, "one with a fixed badge is for all the same")
                    continue
                }
                // What is sent again brings the count of now, which newer messages may have raised.
                let figure = min(first[ordinal] ?? counts[device]!, PayloadTemplate.largestFigure)
                #expect(
                    String(decoding: payload, as: UTF8.self) == #"{"aps":{"alert":"x","badge":\#(figure)}}"#,
                    "seed \(seed): device \(devices[device] ?? 0), root \(job.rootID), \(figures[device] ?? [:])")
            }
            held.append(HeldByWorker(job: job, worker: worker))
        }
    }

    /// Counts a message that raises badges, unless it was counted before.
    /// - Returns: the badge of the device with the message; nil if it was counted before.
    private mutating func count(_ ordinal: Int, of job: ClaimedJob) -> Int? {
        let device = job.deviceIDs[ordinal]
        guard let increment = increments[job.rootID] else { return nil }
        guard figures[device]?[job.rootID] == nil else {
            repeats += 1
            return nil
        }
        taken += 1
        counts[device, default: 0] += increment
        figures[device, default: [:]][job.rootID] = counts[device]
        return counts[device]
    }

    mutating func settle(_ job: ClaimedJob, allArrive: Bool) -> SettledJob {
        var outcomes = job.outcomes.isEmpty ? [UInt8](repeating: 0, count: job.deviceIDs.count) : job.outcomes
        var again: [ContinuingRecipient] = []
        var nothing: [Int64] = []
        for (ordinal, device) in job.deviceIDs.enumerated() where outcomes[ordinal] == 0 {
            let outcome: Outcome =
                allArrive
                ? .delivered
                : [
                    .delivered, .delivered, .unknown, .expired, .rejected(.unregistered), .retried(.otherTransient),
                ].randomElement(using: &random)!
            switch outcome.kind {
            case .retried: again.append(.init(ordinal: ordinal, deviceID: device, delay: .zero, attempts: 1, losses: 0))
            case .rejected, .expired:
                nothing.append(device)
                lower(device, root: job.rootID)
            default: break
            }
            outcomes[ordinal] = outcome.rawValue
        }
        return SettledJob(
            key: job.key, outcomes: outcomes, again: again, reports: [], notes: nil,
            givenBackBadges: nothing.isEmpty
                ? nil : job.badgeIncrement.map { GivenBackBadges(increment: $0, deviceIDs: nothing) })
    }

    private mutating func lower(_ device: Int64, root: Int64) {
        guard let increment = increments[root], figures[device]?.removeValue(forKey: root) != nil else { return }
        counts[device]! -= increment
        givenBack += 1
    }

    /// Gives jobs back after a part of each was sent. Others are to wait for long, as in a paused campaign, and are
    /// counted anew when they are sent to.
    private mutating func giveBack() async throws {
        let taken = takeHeld()
        guard let worker = taken.first?.worker else { return }
        let isToWait = Bool.random(using: &random)
        let leases = taken.map { held in
            var outcomes =
                held.job.outcomes.isEmpty
                ? [UInt8](repeating: 0, count: held.job.deviceIDs.count) : held.job.outcomes
            for ordinal in outcomes.indices where outcomes[ordinal] == 0 && Bool.random(using: &random) {
                outcomes[ordinal] = Outcome.delivered.rawValue
            }
            let watermark = outcomes.firstIndex(of: 0) ?? outcomes.count
            let waiting = isToWait ? outcomes.indices.filter { outcomes[$0] == 0 }.map { held.job.deviceIDs[$0] } : []
            for device in waiting { lower(device, root: held.job.rootID) }
            return YieldedLease(
                progress: LeaseProgress(key: held.job.key, watermark: watermark, outcomes: outcomes),
                givenBackBadges: waiting.isEmpty
                    ? nil : held.job.badgeIncrement.map { GivenBackBadges(increment: $0, deviceIDs: waiting) })
        }
        #expect(try await queue.worker.yield(leases, workerID: worker).keys.count == taken.count, "seed \(seed)")
    }

    /// Loses a worker with a job. What it has sent is unknown.
    private mutating func lose() async throws {
        guard let index = held.indices.randomElement(using: &random) else { return }
        let lost = held.remove(at: index)
        try await queue.expireLeases(of: lost.job)
        #expect(try await queue.worker.rescue(grace: .zero) == 1)
        // The lost worker's writes come too late.
        #expect(try await queue.worker.takingBadges([lost.job], workerID: lost.worker).isEmpty == isToTake(lost.job))
        if let increment = lost.job.badgeIncrement {
            let late = SettledJob(
                key: lost.job.key, outcomes: [UInt8](repeating: 3, count: lost.job.deviceIDs.count), again: [],
                reports: [], notes: nil,
                givenBackBadges: GivenBackBadges(increment: increment, deviceIDs: lost.job.deviceIDs))
            #expect(try await queue.worker.endJobs([late], workerID: lost.worker).keys.isEmpty)
        }
    }

    private func isToTake(_ job: ClaimedJob) -> Bool {
        job.badgeIncrement != nil && job.deviceIDs.indices.contains { !isOver($0, of: job) }
    }

    /// An app sets another badge, on one device or on all devices of a user.
    private mutating func reset() async throws {
        resets += 1
        let number = Int.random(in: 1...8, using: &random)
        let badge = [0, 0, 0, 4, 99_990].randomElement(using: &random)!
        let isOfUser = Bool.random(using: &random)
        let whom = isOfUser ? "user_key => 'user\(number / 3)'" : "token => '\(Self.hex(number))'"
        let changed = devices.filter { isOfUser ? $0.value / 3 == number / 3 : $0.value == number }.keys
        let said = try await queue.number(
            "select pushq.set_badge('\(QueueFixture.name)', \(whom)\(badge == 0 ? "" : ", badge => \(badge)"))")
        #expect(said == changed.count)
        for device in changed {
            counts[device] = badge
            figures[device] = [:]
        }
    }
}
