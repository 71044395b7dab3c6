import PostgresStore
import TestSupport
import Testing

/// A job that a worker holds.
struct HeldByWorker {
    let job: ClaimedJob
    let worker: Int64
}

/// Workers that claim random jobs and end them in any order.
protocol HeldJobsWorld {
    var queue: QueueFixture { get }
    var seed: UInt64 { get }
    var random: SeededGenerator { get set }
    var held: [HeldByWorker] { get set }

    mutating func claim() async throws
    /// The result that a worker writes for a job, with random outcomes, or with all recipients delivered.
    mutating func settle(_ job: ClaimedJob, allArrive: Bool) -> SettledJob
}

extension HeldJobsWorld {
    /// Removes up to three jobs of one worker, for which it writes the results together.
    mutating func takeHeld() -> [HeldByWorker] {
        guard let worker = held.randomElement(using: &random)?.worker else { return [] }
        let count = Int.random(in: 1...3, using: &random)
        let indices = held.indices.filter { held[$0].worker == worker }.shuffled(using: &random).prefix(count)
        let taken = indices.map { held[$0] }
        for index in indices.sorted(by: >) { held.remove(at: index) }
        return taken
    }

    /// Ends some of the held jobs.
    mutating func end(allArrive: Bool = false) async throws {
        let taken = takeHeld()
        guard let worker = taken.first?.worker else { return }
        let settled = taken.map { settle($0.job, allArrive: allArrive) }
        #expect(try await queue.worker.endJobs(settled, workerID: worker).keys.count == taken.count, "seed \(seed)")
    }

    /// Ends all jobs.
    mutating func endAll() async throws {
        for _ in 1...20 {
            try await claim()
            while !held.isEmpty { try await end(allArrive: true) }
        }
        #expect(try await queue.number("select count(*) from pushq.lease") == 0, "seed \(seed)")
    }

    /// Whether a recipient of a job already had an outcome.
    func isOver(_ ordinal: Int, of job: ClaimedJob) -> Bool {
        !job.outcomes.isEmpty && job.outcomes[ordinal] != 0
    }
}
