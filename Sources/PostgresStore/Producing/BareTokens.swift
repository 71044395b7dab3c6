/// The bare tokens of a file, collected in memory, so that they can be written in their order and each once.
///
/// PostgreSQL adds sorted rows much faster, because neighbours in an index are written together. Tokens that are sorted
/// here need no table in between.
struct BareTokens: Sendable {
    /// Where a token is in ``bytes``.
    private struct Place {
        /// The token's first bytes as a number, with zeros for those that it lacks. Nearly all comparisons need no
        /// more.
        let prefix: UInt64
        let start: UInt32
        let length: UInt8

        var range: Range<Int> { Int(start)..<(Int(start) + Int(length)) }
    }

    /// The length of a usual token.
    private static let usualBytes = 32

    private var bytes: [UInt8] = []
    private var places: [Place] = []

    /// The number of tokens; after ``sort()``, that of different ones.
    var count: Int { places.count }

    /// Whether there are as many tokens as `limit` says, or as many bytes as usual tokens of this number have.
    func isFull(_ limit: Int) -> Bool { places.count >= limit || bytes.count / Self.usualBytes >= limit }

    /// Adds a token of at most 100 bytes.
    mutating func append(_ token: [UInt8]) {
        var prefix: UInt64 = 0
        for index in 0..<8 {
            let byte = index < token.count ? token[index] : 0
            prefix = prefix << 8 | UInt64(byte)
        }
        places.append(Place(prefix: prefix, start: UInt32(bytes.count), length: UInt8(token.count)))
        bytes.append(contentsOf: token)
    }

    /// Sorts the tokens as PostgreSQL sorts a `bytea`, and drops repetitions.
    mutating func sort() {
        let bytes = bytes
        places.sort { one, other in
            guard one.prefix == other.prefix else { return one.prefix < other.prefix }
            return bytes[one.range].lexicographicallyPrecedes(bytes[other.range])
        }
        var kept = 0
        for index in places.indices {
            let place = places[index]
            if kept > 0, places[kept - 1].prefix == place.prefix, bytes[places[kept - 1].range] == bytes[place.range] {
                continue
            }
            places[kept] = place
            kept += 1
        }
        places.removeLast(places.count - kept)
    }

    /// Adds a token to a row, as a column.
    func add(_ index: Int, to rows: inout CopyRows) { rows.add(bytes.span.extracting(places[index].range)) }
}
