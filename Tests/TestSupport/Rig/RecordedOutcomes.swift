package import PostgresStore
package import QueueCore

/// The outcomes of all recipients, according to the database.
package struct RecordedOutcomes {
    /// The final outcomes of each recipient. If all is well, there is exactly one.
    package private(set) var ends: [APNsID: [Outcome]] = [:]
    /// All recipients, from the first bodies of each root.
    package private(set) var recipients: Set<APNsID> = []

    private static let results = Statement(
        "results",
        """
        select r.root_id, r.outcomes, b.device_ids
        from pushq.result r
        join pushq.body b on b.day = r.body_day and b.queue_id = r.queue_id and b.job_id = r.job_id
        """)
    private static let bodies = Statement(
        "bodies", "select root_id, device_ids from pushq.body where slice = 0")

    /// Creates outcomes for a test.
    package init(ends: [APNsID: [Outcome]], recipients: Set<APNsID>) {
        self.ends = ends
        self.recipients = recipients
    }

    /// Reads the outcomes from a database.
    package init(from store: PostgresConnection) async throws {
        for row in try await store.execute(Self.bodies, within: .seconds(60)) {
            let root = row.int8("root_id")
            for device in row.int8Array("device_ids") { recipients.insert(APNsID(root: root, key: device)) }
        }
        for row in try await store.execute(Self.results, within: .seconds(60)) {
            let root = row.int8("root_id")
            for (byte, device) in zip(row.bytes("outcomes"), row.int8Array("device_ids")) {
                let outcome = Outcome(rawValue: byte)
                guard !outcome.continuesInOtherJob else { continue }
                ends[APNsID(root: root, key: device), default: []].append(outcome)
            }
        }
    }

    /// Adds the outcomes of another database.
    mutating func add(_ other: RecordedOutcomes) {
        ends.merge(other.ends) { $0 + $1 }
        recipients.formUnion(other.recipients)
    }
}
