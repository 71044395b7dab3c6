/// What became of leases that were to be ended or given back: those that are missing here were lost before. By the
/// whole key: a worker may have lost a job and claimed it again, and still know of the lease that it lost.
package struct WrittenLeases: Sendable {
    /// Those for which it was done.
    package private(set) var keys: Set<LeaseKey> = []
    /// Those that are still held and whose row another transaction has locked: to be tried again.
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
