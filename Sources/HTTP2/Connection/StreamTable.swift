/// The open streams of a connection: a hash table by identifier with open addressing. At least half of the rows are
/// free.
///
/// If two streams want the same row, the one further from its home gets it (Robin Hood hashing). So no stream behind a
/// stream at home was pushed past it, and a removal ends there instead of at the end of the run.
///
/// Identifiers are consecutive, so nearly every stream is in its home row. A long-lived stream costs one row. In a ring
/// it would cost a row for every stream opened since.
struct StreamTable {
    private(set) var rows: [Stream] = []
    private(set) var count = 0
    private var mask = 0

    /// Returns the index of the stream's row; valid until the next insertion or removal.
    func index(of id: UInt32) -> Int? {
        // Identifier 0, which the connection's own frames carry, would match any free row.
        guard count > 0, id != 0 else { return nil }
        var index = home(of: id)
        while rows[index].id != id {
            if rows[index].id == 0 { return nil }
            index = (index &+ 1) & mask
        }
        return index
    }

    subscript(index: Int) -> Stream {
        _read { yield rows[index] }
        _modify { yield &rows[index] }
    }

    /// Adds a stream whose identifier is not in the table; returns its index.
    mutating func insert(_ stream: Stream) -> Int {
        if (count &+ 1) &* 2 > rows.count { grow() }
        count &+= 1
        return place(stream)
    }

    /// Removes a row and closes the gap, so that no look-up stops before it reaches a stream behind the gap.
    mutating func remove(at index: Int) {
        var gap = index
        var next = (index &+ 1) & mask
        while rows[next].id != 0, home(of: rows[next].id) != next {
            rows[gap] = rows[next]
            gap = next
            next = (next &+ 1) & mask
        }
        rows[gap].id = 0
        count &-= 1
    }

    /// The identifiers of all open streams, lowest first.
    var ids: [UInt32] { rows.lazy.filter { $0.id != 0 }.map(\.id).sorted() }

    private func home(of id: UInt32) -> Int { Int(id &>> 1) & mask }

    private mutating func place(_ stream: Stream) -> Int {
        var carried = stream
        var index = home(of: stream.id)
        var distance = 0
        var place: Int?
        while rows[index].id != 0 {
            let otherDistance = (index &- home(of: rows[index].id)) & mask
            if otherDistance < distance {
                swap(&carried, &rows[index])
                place = place ?? index
                distance = otherDistance
            }
            index = (index &+ 1) & mask
            distance &+= 1
        }
        rows[index] = carried
        return place ?? index
    }

    private mutating func grow() {
        let old = rows
        rows = Array(repeating: Stream(), count: max(16, old.count * 2))
        mask = rows.count - 1
        for stream in old where stream.id != 0 { _ = place(stream) }
    }
}
