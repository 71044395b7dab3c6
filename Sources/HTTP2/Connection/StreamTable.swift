/// The open streams of a connection: open addressing by identifier, with at least half of the rows free.
///
/// Identifiers come in a row, so nearly every stream lies in the row its number points at. A long-lived stream costs
/// one row, unlike in a ring, which would have to span everything opened since.
struct StreamTable {
    private(set) var rows: [Stream] = []
    private(set) var count = 0
    private var mask = 0

    /// Where the stream's row is; valid until the next insertion or removal.
    func index(of id: UInt32) -> Int? {
        // Identifier 0, which frames of the connection carry, would be found in any free row.
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

    /// Adds a stream whose identifier is not in the table; answers its index.
    mutating func insert(_ stream: Stream) -> Int {
        if (count &+ 1) &* 2 > rows.count { grow() }
        count &+= 1
        return place(stream)
    }

    /// Removes a row and closes the gap, so that no look-up stops short of a stream that lies further on.
    mutating func remove(at index: Int) {
        var gap = index
        var next = (index &+ 1) & mask
        while rows[next].id != 0 {
            let distanceFromHome = (next &- home(of: rows[next].id)) & mask
            if distanceFromHome >= (next &- gap) & mask {
                rows[gap] = rows[next]
                gap = next
            }
            next = (next &+ 1) & mask
        }
        rows[gap].id = 0
        count &-= 1
    }

    /// The identifiers of all open streams, lowest first.
    var ids: [UInt32] { rows.lazy.filter { $0.id != 0 }.map(\.id).sorted() }

    private func home(of id: UInt32) -> Int { Int(id &>> 1) & mask }

    private mutating func place(_ stream: Stream) -> Int {
        var index = home(of: stream.id)
        while rows[index].id != 0 { index = (index &+ 1) & mask }
        rows[index] = stream
        return index
    }

    private mutating func grow() {
        let old = rows
        rows = Array(repeating: Stream(), count: max(16, old.count * 2))
        mask = rows.count - 1
        for stream in old where stream.id != 0 { _ = place(stream) }
    }
}
