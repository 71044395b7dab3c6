/// The fields that one direction of a connection has learnt, newest first (RFC 7541 §2.3.2, §4).
///
/// Entries leave in the order in which they came, so their text and their rows are queues. Each entry has a unique
/// number: how many entries were inserted up to it. An index is the distance from the newest number.
struct DynamicTable: ~Copyable {
    /// The size that an entry counts beside its text (RFC 7541 §4.1).
    static let entryOverhead = 32

    struct Entry {
        var name = FieldName.other
        var isWellFormed = false
        var nameByteCount = 0
        var byteCount = 0
        /// The position of name and value in the table's text.
        var position: UInt64 = 0
    }

    private var text = ByteQueue()
    /// A ring of rows; its size is a power of two.
    private var rows: [Entry] = []
    private(set) var count = 0
    private(set) var size = 0
    private(set) var capacity: Int
    /// The number of the newest entry.
    private(set) var insertions: UInt64 = 0

    init(capacity: Int) { self.capacity = capacity }

    /// The number of the entry at `index`, counted from 0 for the newest.
    func number(at index: Int) -> UInt64 { insertions &- UInt64(index) }

    /// The index of the entry with that number, if it is still there.
    func index(ofNumber number: UInt64) -> Int? {
        let distance = insertions &- number
        return number > 0 && distance < UInt64(count) ? Int(distance) : nil
    }

    /// The entry at `index`, counted from 0 for the newest.
    subscript(index: Int) -> Entry {
        precondition(index >= 0 && index < count, "The index is not in the table.")
        return rows[Int(truncatingIfNeeded: number(at: index)) & (rows.count &- 1)]
    }

    /// Calls `body` with the name of an entry followed by its value.
    func withText<Result, Failure: Error>(
        of entry: Entry, _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try text.withBytes(at: entry.position, count: entry.byteCount, body)
    }

    /// Returns the index of the entry with this name and value. The search is linear, but happens once per connection
    /// and field.
    func index(of name: [UInt8], _ value: [UInt8]) -> Int? {
        (0..<count).first { index in
            let entry = self[index]
            guard entry.nameByteCount == name.count, entry.byteCount == name.count + value.count else { return false }
            return withText(of: entry) { text in
                text.extracting(first: name.count).isEqual(to: name.span)
                    && text.extracting(droppingFirst: name.count).isEqual(to: value.span)
            }
        }
    }

    /// The index of the newest entry with this name.
    func index(of name: [UInt8]) -> Int? {
        (0..<count).first { index in
            let entry = self[index]
            return entry.nameByteCount == name.count
                && withText(of: entry) { $0.extracting(first: name.count).isEqual(to: name.span) }
        }
    }

    /// Adds a field, given as its name followed by its value, and evicts entries that no longer fit. A field larger
    /// than the table empties it, which is not an error (RFC 7541 §4.4). Returns the field's number, or 0 if it was not
    /// kept.
    mutating func insert(
        _ name: FieldName, isWellFormed: Bool, nameByteCount: Int, text bytes: Span<UInt8>
    ) -> UInt64 {
        let entrySize = bytes.count + Self.entryOverhead
        evict(downTo: capacity - entrySize)
        guard entrySize <= capacity else { return 0 }
        if count == rows.count { grow() }
        let position = text.endPosition
        text.append(bytes)
        insertions += 1
        rows[Int(truncatingIfNeeded: insertions) & (rows.count - 1)] = Entry(
            name: name, isWellFormed: isWellFormed, nameByteCount: nameByteCount, byteCount: bytes.count,
            position: position)
        count += 1
        size += entrySize
        return insertions
    }

    /// Changes the maximum size of the table, and evicts entries that no longer fit (RFC 7541 §4.3).
    mutating func setCapacity(_ newCapacity: Int) {
        capacity = newCapacity
        evict(downTo: newCapacity)
    }

    private mutating func evict(downTo limit: Int) {
        while size > limit, count > 0 {
            let byteCount = self[count - 1].byteCount
            text.consume(byteCount)
            size -= byteCount + Self.entryOverhead
            count -= 1
        }
    }

    private mutating func grow() {
        var larger = [Entry](repeating: Entry(), count: max(16, rows.count * 2))
        for index in 0..<count { larger[Int(truncatingIfNeeded: number(at: index)) & (larger.count - 1)] = self[index] }
        rows = larger
    }
}
