import PostgresStore

/// The jobs that this worker holds. Each has a slot, which its tickets name. A slot is used again only when nothing of
/// its job is in flight, so that a late answer cannot find the wrong job.
final class HeldJobs {
    /// A job with its queue. The job itself does not know its queue; the queue knows its jobs.
    struct Holding {
        let job: HeldJob
        let queue: QueueState
    }

    private var slots: [Holding?] = []
    private var free: [Int] = []
    /// The number of jobs held.
    private(set) var count = 0
    /// The translations of their messages.
    private(set) var translations = HeldTranslations()

    /// Creates a job with `make` in a free slot, and keeps it.
    func insert(of queue: QueueState, _ make: (_ slot: Int) -> HeldJob) -> HeldJob {
        let slot = free.popLast() ?? slots.count
        if slot == slots.count { slots.append(nil) }
        let job = make(slot)
        slots[slot] = Holding(job: job, queue: queue)
        count += 1
        queue.noteHeld(job, count: 1)
        if let message = job.claim.personal?.message { translations.add(message, of: queue.settings.tenantID) }
        return job
    }

    /// The job of a ticket.
    subscript(slot: Int) -> Holding? { slots[slot] }

    /// The queue of a held job.
    func queue(of job: HeldJob) -> QueueState {
        guard let holding = slots[job.slot], holding.job === job else { fatalError("the job is not held") }
        return holding.queue
    }

    /// Forgets a job that has nothing in flight.
    func remove(_ job: HeldJob) {
        precondition(job.inFlight == 0, "a job leaves its slot with nothing in flight")
        queue(of: job).noteHeld(job, count: -1)
        if let message = job.claim.personal?.message { translations.remove(message) }
        slots[job.slot] = nil
        free.append(job.slot)
        count -= 1
    }

    /// What this worker leaves to others if it ends now: the number of leases in its name, and the maximum number of
    /// pushes of which PostgreSQL does not know.
    var left: (jobs: Int, pushes: Int) { (count, all.reduce(0) { $0 + $1.unwrittenPushes }) }

    /// All held jobs, with their queues or without.
    var holdings: [Holding] { slots.compactMap { $0 } }
    var all: [HeldJob] { slots.compactMap { $0?.job } }
}

/// The number that a request carries through the gateway and back: the slot of its job and the recipient's ordinal.
struct Ticket {
    let rawValue: UInt64

    init(slot: Int, ordinal: Int) { rawValue = UInt64(slot) << 16 | UInt64(ordinal) }

    init(rawValue: UInt64) { self.rawValue = rawValue }

    var slot: Int { Int(rawValue >> 16) }
    var ordinal: Int { Int(rawValue & 0xFFFF) }
}
