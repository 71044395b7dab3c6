/// The answers that are due later, by the millisecond. It is a timing wheel of buckets, so that a hundred thousand
/// answers a second cost one timer and no sorting.
struct AnswerWheel {
    struct Entry {
        /// Milliseconds since the simulator started.
        var dueAt: Int
        var session: Int
        var slot: Int
        var generation: UInt32
    }

    private static let bucketCount = 4096
    private var buckets = [[Entry]](repeating: [], count: bucketCount)
    /// The millisecond up to which all answers have been taken.
    private var position = 0
    private(set) var count = 0

    /// Adds an answer. An answer that is due after more than one turn of the wheel is put back until it is due.
    mutating func add(_ entry: Entry) {
        var entry = entry
        entry.dueAt = max(entry.dueAt, position + 1)
        buckets[min(entry.dueAt, position + Self.bucketCount) & (Self.bucketCount - 1)].append(entry)
        count += 1
    }

    /// Takes the answers that are due at `now`, in order of their milliseconds.
    mutating func takeDue(at now: Int, into due: inout [Entry]) {
        guard count > 0 else {
            position = max(position, now)
            return
        }
        while position < now, count > 0 {
            position += 1
            takeBucket(into: &due)
        }
        position = max(position, now)
    }

    private mutating func takeBucket(into due: inout [Entry]) {
        let index = position & (Self.bucketCount - 1)
        guard !buckets[index].isEmpty else { return }
        var entries: [Entry] = []
        swap(&entries, &buckets[index])
        for entry in entries {
            count -= 1
            if entry.dueAt <= position { due.append(entry) } else { add(entry) }
        }
        entries.removeAll(keepingCapacity: true)
        if buckets[index].isEmpty { swap(&entries, &buckets[index]) }
    }
}
