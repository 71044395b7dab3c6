import PostgresStore
import TestSupport
import Testing

/// A job in the hands of a worker.
struct HeldByWorker {
    let job: ClaimedJob
    let worker: Int64
}

/// Workers that claim jobs at random and end them, in any order.
protocol HeldJobsWorld {
    var queue: QueueFixture { get }
    var seed: UInt64 { get }
    var random: SeededGenerator { get set }
    var held: [HeldByWorker] { get set }

    mutating func claim() async throws
    /// What a worker writes of a job that is over, with any outcomes, or with all recipients reached.
    mutating func settle(_ job: ClaimedJob, allArrive: Bool) -> SettledJob
}

extension HeldJobsWorld {
    /// Up to three jobs of one worker, which it writes of at once.
    mutating func takeHeld() -> [HeldByWorker] {
        guard let worker = held.randomElement(using: &random)?.worker else { return [] }
        let count = Int.random(in: 1...3, using: &random)
        let indices = held.indices.filter { held[$0].worker == worker }.shuffled(using: &random).prefix(count)
        let taken = indices.map { held[$0] }
        for index in indices.sorted(by: >) { held.remove(at: index) }
        return taken
    }

    /// Ends jobs.
    mutating func end(allArrive: Bool = false) async throws {
        let taken = takeHeld()
        guard let worker = taken.first?.worker else { return }
        let settled = taken.map { settle($0.job, allArrive: allArrive) }
        #expect(try await queue.worker.endJobs(settled, workerID: worker).keys.count == taken.count, "seed \(seed)")
    }

    /// Lets everything come to an end.
    mutating func endAll() async throws {
        for _ in 1...20 {
            try await claim()
            while !held.isEmpty { try await end(allArrive: true) }
        }
        #expect(try await queue.number("select count(*) from pushq.lease") == 0, "seed \(seed)")
    }

    /// Whether a recipient of a job had its outcome before.
    func isOver(_ ordinal: Int, of job: ClaimedJob) -> Bool {
        !job.outcomes.isEmpty && job.outcomes[ordinal] != 0
    }
}
