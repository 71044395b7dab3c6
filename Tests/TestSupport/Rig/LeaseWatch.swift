import PostgresStore
package import QueueCore
import Transport

/// Looks at leases that have run out, before they are rescued: what they do not know is what a crash leaves uncertain.
///
/// A lease is put back two seconds after its end at the earliest, and is looked at several times until then.
package final class LeaseWatch {
    /// A lease that ran out, as it last was.
    package struct Lapsed: Sendable {
        /// In microseconds since 1970.
        package let deadline: Int
        /// Those without an outcome.
        package let uncertain: [APNsID]
    }

    private struct Key: Hashable {
        let job: Int64
        let epoch: Int32
    }

    private static let interval = Duration.milliseconds(150)
    private static let statement = Statement(
        "lapsed",
        """
        select l.job_id, l.epoch, (extract(epoch from l.deadline) * 1000000)::int8, l.root_id, l.outcomes, b.device_ids
        from pushq.lease l
        join pushq.body b on b.day = l.body_day and b.queue_id = l.queue_id and b.job_id = l.job_id
        where l.deadline < now()
        """)

    private let store: StoreConnection
    private let loop: EventLoop
    private var lapsed: [Key: Lapsed] = [:]
    private var isEnding = false
    private var isRunning = false

    init(_ store: StoreConnection, loop: EventLoop) {
        self.store = store
        self.loop = loop
    }

    /// The leases that ran out, each as it was at last.
    package var seen: [Lapsed] { Array(lapsed.values) }

    func begin() {
        isRunning = true
        loop.startTask { [self] in
            while !isEnding {
                // PostgreSQL may be stopped or cut off: then nobody rescues either.
                if let connection = try? await store.current(within: .seconds(1)) { try? await look(connection) }
                try? await Task.sleep(for: Self.interval)
            }
            isRunning = false
        }
    }

    func end() async {
        isEnding = true
        store.close()
        while isRunning { try? await Task.sleep(for: .milliseconds(5)) }
    }

    private func look(_ connection: PostgresConnection) async throws {
        for row in try await connection.execute(Self.statement, [], within: .seconds(5)) {
            let root = row.int8(3)
            let uncertain = zip(row.bytes(4), row.int8Array(5)).filter { $0.0 == 0 }
            lapsed[Key(job: row.int8(0), epoch: row.int4(1))] = Lapsed(
                deadline: Int(row.int8(2)), uncertain: uncertain.map { APNsID(root: root, key: $0.1) })
        }
    }
}
