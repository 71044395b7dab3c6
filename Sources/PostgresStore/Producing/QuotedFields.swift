/// The fields of a table's lines (RFC 4180 §2).
///
/// A quotation mark opens a field only at its beginning. Anywhere else in a field without marks it is text like any
/// other, as in `27" screen`: spreadsheets and Python's csv read it so, too.
struct QuotedFields {
    /// What a byte is to the field that it stands in.
    enum Meaning {
        case text
        /// A quotation mark that opens or closes the field, or the first of two that stand for one.
        case mark
        case separator
        /// Text behind the closing quotation mark, which means nothing.
        case misplaced
    }

    private enum Place {
        case start
        case plain
        case quoted
        case behindMark
    }

    private let separator: UInt8
    private var place = Place.start

    /// Whether a quotation mark is open, so that a newline here is text.
    var isOpen: Bool { place == .quoted }

    /// What is before the first byte of a line.
    init(separator: UInt8) { self.separator = separator }

    /// Goes on behind the next byte of the line.
    mutating func take(_ byte: UInt8) -> Meaning {
        let mark = UInt8(ascii: "\"")
        switch (place, byte) {
        case (.quoted, mark):
            place = .behindMark
            return .mark
        case (.quoted, _): return .text
        case (.behindMark, mark):
            place = .quoted
            return .text
        case (_, separator):
            place = .start
            return .separator
        case (.start, mark):
            place = .quoted
            return .mark
        case (.behindMark, _): return .misplaced
        case (.start, _), (.plain, _):
            place = .plain
            return .text
        }
    }

    /// The fields of a line without its newline.
    static func split(
        _ line: ArraySlice<UInt8>, at separator: UInt8
    ) throws(DeviceFieldProblem) -> [ArraySlice<UInt8>] {
        var fields: [[UInt8]] = [[]]
        var scan = QuotedFields(separator: separator)
        for byte in line {
            switch scan.take(byte) {
            case .text: fields[fields.count - 1].append(byte)
            case .mark: break
            case .separator: fields.append([])
            case .misplaced:
                throw DeviceFieldProblem(
                    "there is text behind a closing quotation mark; within quotation marks, write each of them twice")
            }
        }
        guard !scan.isOpen else { throw DeviceFieldProblem("a quotation mark is not closed") }
        return fields.map { $0[...] }
    }

    /// A line that is one value, without the quotation marks in which it may stand.
    static func value(_ line: ArraySlice<UInt8>) throws(DeviceFieldProblem) -> ArraySlice<UInt8> {
        guard line.first == UInt8(ascii: "\"") else { return line }
        // What divides the fields of a table is text here; a newline is in no line.
        return try split(line, at: UInt8(ascii: "\n"))[0]
    }
}
