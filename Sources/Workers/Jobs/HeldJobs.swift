import PostgresStore

/// The jobs that this worker holds, each in a slot that its tickets name. A slot is used again only when nothing of its job is
/// in flight, so that a late answer cannot find the wrong job.
final class HeldJobs {
    private var slots: [HeldJob?] = []
    private var free: [Int] = []
    /// Jobs held.
    private(set) var count = 0
    /// Leases that were held and could not be written at their end: what was sent for them is known to nobody.
    private var abandoned: Set<LeaseKey> = []

    /// Keeps the job that `make` makes for its slot.
    func insert(_ make: (_ slot: Int) -> HeldJob) -> HeldJob {
        let slot = free.popLast() ?? slots.count
        if slot == slots.count { slots.append(nil) }
        let job = make(slot)
        slots[slot] = job
        count += 1
        job.queue.heldJobs += 1
        return job
    }

    /// The job of a ticket.
    subscript(slot: Int) -> HeldJob? { slots[slot] }

    /// Forgets a job of which nothing is in flight.
    func remove(_ job: HeldJob) {
        precondition(
            job.inFlight == 0 && slots[job.slot] === job, "a job leaves its slot once and with nothing in flight")
        slots[job.slot] = nil
        free.append(job.slot)
        count -= 1
        job.queue.heldJobs -= 1
    }

    /// Notes that the end of a job could not be written. Its lease is found as one that nobody knows of.
    func noteAbandoned(_ job: HeldJob) { abandoned.insert(job.claim.key) }

    /// Whether a lease that is found so was ever held here; if so, that is asked once.
    func wasAbandoned(_ key: LeaseKey) -> Bool { abandoned.remove(key) != nil }

    /// All of them.
    var all: [HeldJob] { slots.compactMap { $0 } }
}

/// What a request carries through the gateway and back: the slot of its job and the recipient's place in it.
struct Ticket {
    let rawValue: UInt64

    init(slot: Int, ordinal: Int) { rawValue = UInt64(slot) << 16 | UInt64(ordinal) }

    init(rawValue: UInt64) { self.rawValue = rawValue }

    var slot: Int { Int(rawValue >> 16) }
    var ordinal: Int { Int(rawValue & 0xFFFF) }
}
