/// The lease protocol of `PostgresStore/Leasing` and `Workers/Settle`, reduced to what decides whether a recipient can
/// be lost, settled twice or, where that is forbidden, sent to twice. The model has one job of two recipients, two
/// workers, and everything that can happen between them in any order.
///
/// A worker whose job was rescued keeps its beliefs and goes on acting on them: it is a zombie.
struct LeaseModel {
    static let recipients = 2
    static let workers = 2

    /// The rules with which the model runs.
    struct Rules {
        /// Whether writes change nothing unless the lease exists with the writer's epoch.
        var checksEpoch = true
        /// Whether a flush that was given up changes nothing once a later flush of the same holder was written.
        var ordersFlushes = true
        var isAtMostOnce = false
        /// The number of times that workers may die, leases expire and jobs be given back. Without a limit there is no
        /// last epoch.
        var maximumKills = 1
        var maximumRescues = 2
        var maximumYields = 1
        /// The number of flushes that a worker may give up. Such a flush may arrive at any later time.
        var maximumLate = 0
    }

    enum Fate: UInt8 { case waiting, delivered, unknown }

    /// The content of the database. The job is in exactly one place.
    struct Database: Hashable {
        enum Place: Hashable {
            case job
            case lease(epoch: UInt8)
            case result
        }
        var place = Place.job
        var epoch: UInt8 = 0
        var watermark = 0
        var fates = [Fate](repeating: .waiting, count: recipients)
        /// The number of times that the end of a job counted each recipient.
        var counted = [UInt8](repeating: 0, count: recipients)
    }

    /// The beliefs of a worker.
    struct Worker: Hashable {
        var epoch: UInt8
        var watermark: Int
        var fates: [Fate]
        var next = 0
        var inFlight: Set<Int> = []
    }

    /// A flush without an answer: the worker goes on, and the server may still carry it out.
    struct LateFlush: Hashable {
        var epoch: UInt8
        var watermark: Int
        var fates: [Fate]
        /// Whether a later flush was written.
        var isOutdated = false
    }

    struct State: Hashable {
        var database = Database()
        var workers = [Worker?](repeating: nil, count: LeaseModel.workers)
        /// The number of times that each recipient was sent to, by all workers.
        var sent = [UInt8](repeating: 0, count: recipients)
        var kills = 0
        var losses = 0
        var yields = 0
        var late: LateFlush?
        var lates = 0
    }

    let rules: Rules

    /// Every state that can follow, with the action that leads to it.
    func successors(of state: State) -> [(action: String, state: State)] {
        var all: [(String, State)] = []
        for index in 0..<Self.workers {
            if let worker = state.workers[index] {
                all += steps(of: worker, at: index, in: state)
            } else if let claimed = claim(by: index, in: state) {
                all.append(("worker \(index) claims", claimed))
            }
        }
        if let late = state.late { all.append(("the late flush arrives", arrive(late, in: state))) }
        // The lease of a lost worker always expires. The lease of a slow worker expires at most `maximumRescues` times.
        if case .lease(let epoch) = state.database.place,
            state.losses < rules.maximumRescues || !state.workers.contains(where: { $0?.epoch == epoch })
        {
            var next = state
            next.database.place = .job
            next.losses += 1
            all.append(("the lease runs out", next))
        }
        return all
    }

    private func claim(by index: Int, in state: State) -> State? {
        guard state.database.place == .job else { return nil }
        var next = state
        let previousWatermark = next.database.watermark
        next.database.epoch += 1
        next.database.place = .lease(epoch: next.database.epoch)
        // For at-most-once jobs, a claim grants one recipient at a time; otherwise the whole job.
        next.database.watermark = rules.isAtMostOnce ? min(Self.recipients, previousWatermark + 1) : Self.recipients
        var fates = next.database.fates
        if rules.isAtMostOnce {
            for recipient in 0..<previousWatermark where fates[recipient] == .waiting { fates[recipient] = .unknown }
        }
        next.workers[index] = Worker(epoch: next.database.epoch, watermark: next.database.watermark, fates: fates)
        return next
    }

    private func steps(of worker: Worker, at index: Int, in state: State) -> [(String, State)] {
        var all: [(String, State)] = []
        if let next = send(by: worker, at: index, in: state) { all.append(("worker \(index) sends", next)) }
        for recipient in worker.inFlight {
            var next = state
            next.workers[index]?.inFlight.remove(recipient)
            next.workers[index]?.fates[recipient] = .delivered
            all.append(("worker \(index) hears of \(recipient)", next))
        }
        all.append(("worker \(index) flushes", flush(by: worker, at: index, in: state)))
        if state.late == nil, state.lates < rules.maximumLate {
            var next = state
            next.lates += 1
            next.late = LateFlush(epoch: worker.epoch, watermark: watermark(of: worker), fates: worker.fates)
            all.append(("worker \(index) gives a flush up", next))
        }
        if worker.inFlight.isEmpty {
            if worker.fates.contains(.waiting) {
                if state.yields < rules.maximumYields {
                    all.append(("worker \(index) yields", yield(by: worker, at: index, in: state)))
                }
            } else {
                all.append(("worker \(index) ends the job", end(by: worker, at: index, in: state)))
            }
        }
        if state.kills < rules.maximumKills {
            var next = state
            next.workers[index] = nil
            next.kills += 1
            all.append(("worker \(index) dies", next))
        }
        return all
    }

    private func send(by worker: Worker, at index: Int, in state: State) -> State? {
        var recipient = worker.next
        while recipient < worker.watermark, worker.fates[recipient] != .waiting { recipient += 1 }
        guard recipient < worker.watermark else { return nil }
        var next = state
        next.workers[index]?.next = recipient + 1
        next.workers[index]?.inFlight.insert(recipient)
        next.sent[recipient] += 1
        return next
    }

    /// Whether a write of this worker finds its row.
    private func isHeld(by worker: Worker, in database: Database) -> Bool {
        guard case .lease(let epoch) = database.place else { return false }
        return epoch == worker.epoch || !rules.checksEpoch
    }

    private func flush(by worker: Worker, at index: Int, in state: State) -> State {
        var next = state
        guard isHeld(by: worker, in: state.database) else {
            next.workers[index] = nil
            return next
        }
        let watermark = watermark(of: worker)
        next.database.watermark = watermark
        next.database.fates = worker.fates
        next.workers[index]?.watermark = watermark
        if next.late?.epoch == worker.epoch { next.late?.isOutdated = true }
        return next
    }

    /// The watermark that a flush commits.
    private func watermark(of worker: Worker) -> Int {
        rules.isAtMostOnce ? min(Self.recipients, max(worker.watermark, worker.next + 1)) : Self.recipients
    }

    private func arrive(_ late: LateFlush, in state: State) -> State {
        var next = state
        next.late = nil
        guard case .lease(let epoch) = state.database.place, epoch == late.epoch || !rules.checksEpoch,
            !late.isOutdated || !rules.ordersFlushes
        else { return next }
        next.database.watermark = late.watermark
        next.database.fates = late.fates
        return next
    }

    private func yield(by worker: Worker, at index: Int, in state: State) -> State {
        var next = state
        next.workers[index] = nil
        next.yields += 1
        guard isHeld(by: worker, in: state.database) else { return next }
        next.database.place = .job
        next.database.fates = worker.fates
        next.database.watermark = worker.fates.firstIndex(of: .waiting) ?? Self.recipients
        return next
    }

    private func end(by worker: Worker, at index: Int, in state: State) -> State {
        var next = state
        next.workers[index] = nil
        guard isHeld(by: worker, in: state.database) else { return next }
        next.database.place = .result
        next.database.fates = worker.fates
        for recipient in 0..<Self.recipients { next.database.counted[recipient] += 1 }
        return next
    }

    /// Returns the broken promise in a state; nil if the state is correct.
    func violation(in state: State) -> String? {
        let database = state.database
        if database.counted.contains(where: { $0 > 1 }) { return "a recipient was settled twice" }
        if rules.isAtMostOnce, state.sent.contains(where: { $0 > 1 }) { return "a recipient was sent to twice" }
        for recipient in 0..<Self.recipients where database.fates[recipient] == .delivered {
            if state.sent[recipient] == 0 { return "a recipient is recorded as delivered and was never sent to" }
        }
        if database.place == .result, database.fates.contains(.waiting) { return "a recipient was lost" }
        let isQuiet = state.kills == 0 && state.losses == 0
        if isQuiet, state.sent.contains(where: { $0 > 1 }) { return "a recipient was sent to twice without need" }
        if isQuiet, database.fates.contains(.unknown) { return "a recipient became unknown without need" }
        return nil
    }
}
