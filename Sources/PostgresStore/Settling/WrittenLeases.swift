/// The result of ending jobs or giving them back. Leases that are missing here were lost before. Leases are identified
/// by their whole key: a worker may have lost a job and claimed it again, and still know the lost lease.
package struct WrittenLeases: Sendable {
    /// The leases that were ended or given back.
    package private(set) var keys: Set<LeaseKey> = []
    /// The leases that are still held, but whose row another transaction has locked: try them again.
    package private(set) var locked: Set<LeaseKey> = []

    package init(keys: Set<LeaseKey>, locked: Set<LeaseKey> = []) {
        self.keys = keys
        self.locked = locked
    }

    init(_ rows: Rows) {
        for row in rows {
            if row.bool("written") { keys.insert(LeaseKey(row)) } else { locked.insert(LeaseKey(row)) }
        }
    }
}
