import QueueCore
import TestSupport

@testable import PostgresStore
@testable import Workers

/// The promises of intake, which hold in any order of events.
enum IntakePromise: String, CaseIterable {
    case renewableLeases = "no more leases are held than could be renewed in time when they were claimed"
    case boundedClaims = "a claim takes a bounded number of jobs from a bounded number of lanes, each named once"
    case everyLaneHasItsTurn = "no lane with work and room is passed over again and again"
    case everyJobIsSeen = "a poll comes to each job within seconds, also if it was committed late"
    case sleepersAreNotified = "a worker that waits long has its row written, and has polled since"
    case noSpinning = "between two polls that found nothing there is a pause"
    case drainsEnd = "after the order to stop nothing is claimed, and the next step is the end"
    case noRowIsLeft = "a worker that has ended has no row"
}

/// An intake with its surroundings: producers that commit, other workers that take jobs, a dispatcher that ends jobs, a
/// PostgreSQL that fails and loses rows, and a clock. Events are random; the promises are checked after each step.
struct IntakeWorld {
    /// Deliberate mistakes, to check that the promises detect them.
    enum Sabotage: CaseIterable {
        case claimsMoreThanPlanned, claimsALaneTwice, forgetsALane, pollsFloorsOnly, writesNoRow, pollsWithoutPause,
            claimsAfterStop, leavesItsRow

        var breaks: IntakePromise {
            switch self {
            case .claimsMoreThanPlanned: .renewableLeases
            case .claimsALaneTwice: .boundedClaims
            case .forgetsALane: .everyLaneHasItsTurn
            case .pollsFloorsOnly: .everyJobIsSeen
            case .writesNoRow: .sleepersAreNotified
            case .pollsWithoutPause: .noSpinning
            case .claimsAfterStop: .drainsEnd
            case .leavesItsRow: .noRowIsLeft
            }
        }
    }

    private struct Job {
        /// In microseconds since the start, as PostgreSQL stores it.
        let runAt: Int64
        let id: Int64
        let committedAt: ContinuousClock.Instant
        var isSeen = false

        /// Whether its transaction was short.
        func isTimely(_ start: ContinuousClock.Instant) -> Bool {
            .microseconds(runAt) >= start.duration(to: committedAt) - .milliseconds(250)
        }
    }

    private static let maximumLanes: Int32 = 5
    private static let busyPoll = Duration.milliseconds(10)
    /// The number of leases that can be renewed in time: enough for some lanes, or for all.
    private static let limits = [2, 3, 5, 60, 200]

    /// The first broken promise, with details.
    private(set) var violation: (promise: IntakePromise, details: String)?
    /// The number of steps of each kind.
    private(set) var reached: [String: Int] = [:]

    private let sabotage: Sabotage?
    private var chance: SeededGenerator
    private var state = IntakeState(busyPoll: busyPoll, idlePoll: .milliseconds(500), maximumLanes: maximumLanes)
    private let start = ContinuousClock.now
    private var now: ContinuousClock.Instant
    private var nextID: Int64 = 0

    /// The jobs in the database by lane, and the held jobs by queue.
    private var waiting: [LanePlace: [Job]] = [:]
    private var held: [Int32: Int] = [:]
    private var pausedQueues: Set<Int32> = []
    private var maximumLeases: Int
    private var hasRow = false
    /// Whether PostgreSQL refused the row when it was last to be written.
    private var isRowRefused = false
    private var isSignalled = false

    /// The result of the last poll, and the state at that time.
    private var lastFound = ReadyWork(jobs: [], fanOuts: [], end: nil)
    private var heldThen: [Int32: Int] = [:]
    private var pausedThen: Set<Int32> = []
    private var limitThen = 0
    /// The jobs to be claimed since: by one statement for small jobs and one for large jobs.
    private var asked: [ClaimQuota] = []
    private var hasClaimFailed = false
    private var pollTook = Duration.zero
    private var passedOver: [LanePlace: Int] = [:]
    private var pollsSincePause = 0
    private var hasToPoll = false
    /// Whether there is a lot of work. Otherwise there is so little that the worker sleeps.
    private let isBusy: Bool
    /// Whether each poll takes a while, as with thousands of lanes.
    private let isSlow: Bool
    private var isAboutToStop = false
    private var isStopped = false
    private var hasFailed = false
    private var lastFloors: [LaneHead] = []

    init(seed: UInt64, sabotage: Sabotage? = nil) {
        chance = SeededGenerator(seed: seed)
        self.sabotage = sabotage
        now = start
        maximumLeases = Self.limits.randomElement(using: &chance)!
        isBusy = !seed.isMultiple(of: 3)
        isSlow = seed.isMultiple(of: 4)
    }

    private var heldInAll: Int { held.values.reduce(0, +) }

    /// Takes `steps` steps, with events between them, and then drains.
    mutating func run(steps: Int) {
        for _ in 0..<steps where violation == nil {
            for _ in 0..<Int.random(in: 0...3, using: &chance) { happen() }
            step()
        }
        isAboutToStop = true
        while violation == nil, !state.hasEnded {
            mayStop()
            step()
        }
        if violation == nil, hasRow { violation = (.noRowIsLeft, "its row is still there") }
    }

    private mutating func mayStop() {
        guard isAboutToStop, !isStopped, isLikely(0.3, &chance) else { return }
        isStopped = true
        if sabotage != .claimsAfterStop { state.stop() }
    }

    // MARK: Surroundings

    private func isLikely(_ share: Double, _ chance: inout SeededGenerator) -> Bool {
        Double.random(in: 0..<1, using: &chance) < share
    }

    private mutating func happen() {
        now += .milliseconds(Int.random(in: 0...5, using: &chance))
        switch Int.random(in: 0..<20, using: &chance) {
        case 0..<6:
            if isBusy || isLikely(0.1, &chance) { commit() }
        case 6..<12: endJobs()
        case 12: takeAsAnotherWorker()
        case 13:
            let queue = Int32.random(in: 1...6, using: &chance)
            if pausedQueues.remove(queue) == nil { pausedQueues.insert(queue) }
        case 14: maximumLeases = Self.limits.randomElement(using: &chance)!
        case 15 where isLikely(0.2, &chance):
            // PostgreSQL has crashed, so its unlogged table is empty.
            hasRow = false
            state.noteRowInDoubt()
            isSignalled = true
        case 16...17: held = [:]
        // The process or the machine was stopped.
        case 18: now += .seconds(1)
        default: break
        }
    }

    /// A producer commits jobs of one lane. Some are due later, and some were created a while before the commit.
    private mutating func commit() {
        // A worker that sleeps remembers only a few lanes.
        let lane = LanePlace(
            Int32.random(in: 1...(isBusy ? 6 : 2), using: &chance), Lane.shared.randomElement(using: &chance)!)
        let delay = Int64([0, 0, -400, -400, 300].randomElement(using: &chance)!)
        let runAt = Int64((start.duration(to: now) / .microseconds(1)).rounded())
        for _ in 0..<Int.random(in: 1...8, using: &chance) {
            nextID += 1
            waiting[lane, default: []].append(Job(runAt: runAt + delay * 1000, id: nextID, committedAt: now))
        }
        waiting[lane]?.sort { ($0.runAt, $0.id) < ($1.runAt, $1.id) }
        guard hasRow else { return }
        state.noteNotified()
        isSignalled = true
    }

    private mutating func endJobs() {
        for queue in held.keys.sorted() where isLikely(0.5, &chance) {
            held[queue]! -= Int.random(in: 0...held[queue]!, using: &chance)
        }
    }

    private mutating func takeAsAnotherWorker() {
        guard let lane = waiting.keys.sorted().randomElement(using: &chance) else { return }
        waiting[lane] = Array(waiting[lane]!.dropFirst(3))
    }

    // MARK: Intake

    private mutating func step() {
        var step = state.next(at: now)
        if isStopped, !state.hasEnded { return fail(.drainsEnd, "it goes on with \(step)") }
        if sabotage == .pollsWithoutPause, case .wait = step { step = state.next(at: now) }
        switch step {
        case .takeRowAway:
            reached["woken", default: 0] += 1
            (hasRow, hasToPoll) = (false, false)
        case .poll(let poll): self.poll(poll)
        case .presume(let lanes): presume(lanes)
        case .claim(let quotas): claim(quotas)
        case .fallAsleep:
            reached["asleep", default: 0] += 1
            let isWritten = isLikely(0.7, &chance)
            // Without a row until now, producers have not notified this worker.
            hasToPoll = isWritten && !hasRow
            if isWritten, sabotage != .writesNoRow { hasRow = true }
            isRowRefused = !isWritten
            state.noteRow(isWritten: isWritten, took: .zero, now: now)
        case .wait(let pause): wait(pause)
        case .rest(let pause):
            if !hasFailed { fail(.noSpinning, "it rests although nothing has failed") }
            (pollsSincePause, hasFailed) = (0, false)
            now += pause
        case .end(let hadRow):
            if hadRow, sabotage != .leavesItsRow { hasRow = false }
        }
    }

    private mutating func fail(_ promise: IntakePromise, _ details: String) {
        violation = violation ?? (promise, details)
    }

    private mutating func wait(_ pause: Duration) {
        pollsSincePause = 0
        if hasToPoll { return fail(.sleepersAreNotified, "it has not polled since the row was written") }
        if isSignalled {
            isSignalled = false
            now += .milliseconds(1)
        } else {
            let mayLast = isRowRefused ? .milliseconds(500) : max(Self.busyPoll, pollTook * 10)
            if pause > mayLast, !hasRow { return fail(.sleepersAreNotified, "it waits \(pause) without its row") }
            now += pause
        }
        hasFailed = false
    }

    private func isDue(_ job: Job) -> Bool { Double(job.runAt) <= start.duration(to: now) / .microseconds(1) }

    private mutating func poll(_ poll: PollPlan.Poll) {
        reached[poll.name, default: 0] += 1
        checkThatLanesAreServed()
        if violation != nil { return }
        // A poll without campaigns finds nothing out about them.
        if poll.coversCampaigns { hasToPoll = false }
        pollsSincePause += 1
        // After falling asleep, intake polls once more at once.
        if pollsSincePause > 2 { return fail(.noSpinning, "\(pollsSincePause) polls in a row") }
        let begun = now
        for _ in 0..<Int.random(in: 0...2, using: &chance) { happen() }
        mayStop()
        if isLikely(0.03, &chance) {
            hasFailed = true
            return state.noteFailed()
        }
        let found = carryOut(poll)
        let times = isSlow ? [4, 20, 60] : isBusy ? [0, 1, 3, 20, 60] : [0, 1, 3]
        now += .milliseconds(times.randomElement(using: &chance)!)
        pollTook = begun.duration(to: now)
        (lastFound, heldThen, pausedThen, limitThen) = (found, held, pausedQueues, maximumLeases)
        (asked, hasClaimFailed) = ([], false)
        state.noteFound(
            found, lanes: found.jobs.map { candidate($0.head.place, $0.head, dueIn: $0.dueIn) }, worker: worker(),
            needsFanOut: found.coversCampaigns && isLikely(0.02, &chance), now: now)
        checkThatJobsAreSeen()
    }

    private mutating func presume(_ lanes: [LanePlace]) {
        reached["presumption", default: 0] += 1
        checkThatLanesAreServed()
        (lastFound, heldThen, limitThen) = (ReadyWork(jobs: [], fanOuts: [], end: nil), held, maximumLeases)
        (asked, hasClaimFailed) = ([], false)
        state.notePresumed(lanes.map { candidate($0) }, worker: worker())
    }

    private func worker() -> ClaimPlan.Worker {
        .init(maximumHeld: 400_000, leases: heldInAll, maximumLeases: maximumLeases)
    }

    private func candidate(_ place: LanePlace, _ head: LaneHead? = nil, dueIn: Duration = .zero) -> ClaimPlan.Candidate
    {
        ClaimPlan.Candidate(
            tenantID: 1, place: place, head: head, dueIn: dueIn, mayClaim: !pausedQueues.contains(place.queueID),
            heldJobs: held[place.queueID] ?? 0, jobSize: place.lane == .bulk ? 500 : 1)
    }

    /// Returns PostgreSQL's answer to a poll.
    private mutating func carryOut(_ poll: PollPlan.Poll) -> ReadyWork {
        let lanes = waiting.filter { !$0.value.isEmpty }.keys.sorted()
        var (order, end): ([LanePlace], LanePlace?) = (lanes, nil)
        var floors: [LanePlace: LaneHead] = [:]
        switch sabotage == .pollsFloorsOnly && !lastFloors.isEmpty ? .floors(lastFloors, campaigns: true) : poll {
        case .lanes(let place, let most, _):
            order = lanes.filter { $0 > place } + lanes.filter { $0 <= place }
            if order.count > Int(most) {
                order = Array(order.prefix(Int(most)))
                end = order.last
            }
        case .floors(let heads, _):
            for head in heads { floors[head.place] = head }
            lastFloors = heads
        case .within(let ranges, _, let most):
            order = ranges.flatMap { range in lanes.filter { range.contains($0.queueID) } }
            if order.count >= Int(most) {
                order = Array(order.prefix(Int(most)))
                end = order.last
            }
        }
        var found: [ReadyWork.Jobs] = []
        for place in order {
            let floor = floors[place]
            let isFound = { (job: Job) in floor.map { (job.runAt, job.id) >= ($0.runAt, $0.jobID) } ?? true }
            // A job that was committed soon after its creation, or is due later, is above any floor.
            if let job = waiting[place]!.first(where: { !$0.isSeen && $0.isTimely(start) && !isFound($0) }) {
                fail(.everyJobIsSeen, "job \(job.id) of \(place) is due at \(job.runAt), and below the floor")
            }
            guard let first = waiting[place]!.firstIndex(where: isFound) else { continue }
            let head = waiting[place]![first]
            for index in waiting[place]!.indices where isFound(waiting[place]![index]) {
                waiting[place]![index].isSeen = true
            }
            let dueIn = Duration.microseconds(head.runAt) - start.duration(to: now)
            found.append(.init(dueIn: dueIn, head: LaneHead(place, runAt: head.runAt, jobID: head.id)))
        }
        return ReadyWork(jobs: found, fanOuts: [], coversCampaigns: poll.coversCampaigns, end: end)
    }

    private mutating func checkThatJobsAreSeen() {
        // A full poll begins every five seconds at the latest, and then goes from lane to lane. A busy worker may rest
        // ten times as long as a poll takes.
        for (place, jobs) in waiting {
            if let job = jobs.first(where: { !$0.isSeen }), job.committedAt.duration(to: now) > .seconds(12) {
                fail(.everyJobIsSeen, "job \(job.id) of \(place)")
            }
        }
    }

    private mutating func claim(_ quotas: [ClaimQuota]) {
        reached["claim", default: 0] += 1
        var quotas = quotas
        if sabotage == .claimsMoreThanPlanned {
            quotas = quotas.map { ClaimQuota(queueID: $0.queueID, lane: $0.lane, jobs: $0.jobs * 2, head: $0.head) }
        }
        if sabotage == .claimsALaneTwice { quotas.append(quotas[0]) }
        if sabotage == .forgetsALane { quotas.removeAll { $0.queueID == 3 } }
        asked += quotas
        checkBounds()
        for _ in 0..<Int.random(in: 0...2, using: &chance) { happen() }
        mayStop()
        if isLikely(0.03, &chance) {
            (hasFailed, hasClaimFailed) = (true, true)
            return state.noteFailed()
        }
        var lanes: [LanePlace] = []
        for quota in quotas {
            let place = LanePlace(quota.queueID, quota.lane)
            let due = (waiting[place] ?? []).filter { job in
                isDue(job) && quota.head.map { (job.runAt, job.id) >= ($0.runAt, $0.jobID) } ?? true
            }.prefix(Int(quota.jobs))
            waiting[place]?.removeAll { job in due.contains { $0.id == job.id } }
            held[quota.queueID, default: 0] += due.count
            lanes += due.map { _ in place }
        }
        state.noteClaimed(lanes, now: now)
    }

    private mutating func checkBounds() {
        let places = asked.map { LanePlace($0.queueID, $0.lane) }
        if Set(places).count < places.count || places.count > Int(Self.maximumLanes)
            || asked.contains(where: { !(1...200).contains($0.jobs) })
        {
            return fail(.boundedClaims, "\(asked)")
        }
        let jobs = asked.reduce(0) { $0 + Int($1.jobs) }
        let leases = heldThen.values.reduce(0, +)
        if leases + jobs > limitThen {
            return fail(.renewableLeases, "\(jobs) are claimed, \(leases) were held, of \(limitThen)")
        }
    }

    /// Checks the lanes that the last poll found.
    private mutating func checkThatLanesAreServed() {
        guard !hasClaimFailed, !isStopped else { return }
        let places = Set(asked.map { LanePlace($0.queueID, $0.lane) })
        for lane in lastFound.jobs {
            let place = lane.head.place
            let hasRoom =
                lane.dueIn <= .zero && !pausedThen.contains(place.queueID) && heldThen[place.queueID, default: 0] == 0
            passedOver[place] = hasRoom && !places.contains(place) ? passedOver[place, default: 0] + 1 : 0
            // There are 18 lanes, and each claim serves at least one of them.
            if passedOver[place]! > 18 { return fail(.everyLaneHasItsTurn, "\(place)") }
        }
    }
}

extension PollPlan.Poll {
    fileprivate var name: String {
        switch self {
        case .lanes: "poll"
        case .floors: "poll from floors"
        case .within: "poll of some queues"
        }
    }
}
