/// The fields of a table's lines (RFC 4180 §2).
///
/// A quotation mark opens a field only at the field's beginning. Elsewhere in an unquoted field it is ordinary text, as
/// in `27" screen`. Spreadsheets and Python's csv module read it in the same way.
struct QuotedFields {
    /// What a byte means for the field that contains it.
    enum Meaning {
        case text
        /// A quotation mark that opens or closes the field, or the first of two that stand for one.
        case mark
        case separator
        /// Text after the closing quotation mark, which is invalid.
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

    /// The state before the first byte of a line.
    init(separator: UInt8) { self.separator = separator }

    /// Takes the next byte of the line and returns its meaning.
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

    /// The value of a line that is a single value, without the quotation marks around it.
    static func value(_ line: ArraySlice<UInt8>) throws(DeviceFieldProblem) -> ArraySlice<UInt8> {
        guard line.first == UInt8(ascii: "\"") else { return line }
        // A separator of table fields is text here. No line contains a newline.
        return try split(line, at: UInt8(ascii: "\n"))[0]
    }
}
