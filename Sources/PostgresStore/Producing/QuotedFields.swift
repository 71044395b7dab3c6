/// A line with quoted fields (RFC 4180 §2).
enum QuotedFields {
    /// Nil if a quotation mark is not closed.
    static func split(_ line: ArraySlice<UInt8>, at separator: UInt8) -> [ArraySlice<UInt8>]? {
        let quote = UInt8(ascii: "\"")
        var fields: [[UInt8]] = [[]]
        var isQuoted = false
        var rest = line
        while let byte = rest.popFirst() {
            if byte == quote, isQuoted, rest.first == quote {
                fields[fields.count - 1].append(quote)
                rest.removeFirst()
            } else if byte == quote {
                isQuoted.toggle()
            } else if byte == separator, !isQuoted {
                fields.append([])
            } else {
                fields[fields.count - 1].append(byte)
            }
        }
        return isQuoted ? nil : fields.map { $0[...] }
    }
}
