/// The 61 fields that both ends know from the start (RFC 7541 appendix A).
enum StaticTable {
    /// The number of entries; dynamic indices start behind them (RFC 7541 §2.3.3).
    static let count = 61

    /// Where an entry's name, followed by its value, lies in `text`.
    struct Entry {
        let start: Int
        let nameByteCount: Int
        let byteCount: Int
    }

    /// The entries by index; index 0 does not exist.
    static let entries: [Entry] = {
        var start = 0
        return [Entry(start: 0, nameByteCount: 0, byteCount: 0)]
            + table.map { name, value in
                let byteCount = name.utf8.count + value.utf8.count
                defer { start += byteCount }
                return Entry(start: start, nameByteCount: name.utf8.count, byteCount: byteCount)
            }
    }()
    static let text: [UInt8] = table.flatMap { Array($0.name.utf8) + Array($0.value.utf8) }

    static let names: [[UInt8]] = [[]] + table.map { Array($0.name.utf8) }
    private static let values: [[UInt8]] = [[]] + table.map { Array($0.value.utf8) }

    /// The index of the entry with this name and value, if there is one.
    static func index(of name: [UInt8], _ value: [UInt8]) -> Int? {
        (1...count).first { names[$0] == name && values[$0] == value }
    }

    /// The lowest index with this name, if there is one.
    static func index(of name: [UInt8]) -> Int? {
        (1...count).first { names[$0] == name }
    }

    private static let table: [(name: String, value: String)] = [
        (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
        (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
        (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
        ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
        ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
        ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
        ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""),
        ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""),
        ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""),
        ("last-modified", ""), ("link", ""), ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""),
        ("proxy-authorization", ""), ("range", ""), ("referer", ""), ("refresh", ""), ("retry-after", ""),
        ("server", ""), ("set-cookie", ""), ("strict-transport-security", ""), ("transfer-encoding", ""),
        ("user-agent", ""), ("vary", ""), ("via", ""), ("www-authenticate", ""),
    ]
}
