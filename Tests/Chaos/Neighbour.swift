import Foundation
import LocalStack
import PostgresStore
import TestSupport

/// Another tenant on the same installation. It sends one push after the other, and each must be quick.
///
/// Belongs to the rig's loop.
final class Neighbour {
    private let rig: Rig
    private var latencies: [Duration] = []

    init(_ rig: Rig) { self.rig = rig }

    /// Sends one push and waits until its outcome is recorded.
    func send() async throws {
        let start = ContinuousClock.now
        let root = try await rig.number(
            "select pushq.send('\(rig.neighbour)', '{\"aps\":{\"alert\":\"quick\"}}', tokens => array[repeat('be', 32)])"
        )
        let ended = """
            select sum(delivered) from pushq.result
            where queue_id = pushq.queue_id('\(rig.neighbour)') and root_id = \(root)
            """
        try await wait(
            for: "the neighbour's push", within: .seconds(120), { try await rig.number(ended) }, until: { $0 == 1 })
        latencies.append(start.duration(to: .now))
    }

    /// Throws if more than one push in a hundred took longer than `limit`, from the producer's call to the recorded
    /// outcome. Prints the measurements.
    func check(atMost limit: Duration) throws {
        latencies.sort()
        let (median, slow) = (latencies[latencies.count / 2], latencies[latencies.count * 99 / 100])
        say("  the neighbour's pushes: \(latencies.count), p50 \(Self.text(median)), p99 \(Self.text(slow))")
        guard slow <= limit else {
            throw NeverHappened(
                description: "the neighbour's p99 is \(Self.text(slow)), and may be \(Self.text(limit))")
        }
    }

    private static func text(_ duration: Duration) -> String {
        duration.formatted(.units(allowed: [.milliseconds], width: .narrow))
    }
}
