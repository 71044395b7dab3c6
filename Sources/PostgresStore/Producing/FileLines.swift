/// Splits a file that is read piece by piece into lines.
///
/// A line of a table continues in the next one while a quotation mark is open (RFC 4180 §2). If the quoted field does
/// not end properly, the mark was meant as text: then only the line with the mark is broken, and the lines after it
/// stand alone.
struct FileLines {
    /// The number of the line that was taken last, counted from 1 as in editors; 0 before the first.
    private(set) var number = 0
    /// The separator of the fields, if the next lines belong to a table.
    var separator: UInt8?

    private let file: String
    private var bytes: [UInt8] = []
    /// Where in `bytes` the first line that was not taken begins.
    private var start = 0
    private var nextNumber = 1

    /// The maximum length of a line. Keeps a file without newlines out of memory.
    private static let longest = 64 * 1024

    private static let oldLineEnds = "a line ends with CR alone: save the file with LF or CRLF at the ends of lines"

    /// The lines of a file. Errors begin with its name.
    init(file: String) { self.file = file }

    /// Adds the next piece of the file.
    mutating func add(_ piece: [UInt8]) {
        bytes = start == bytes.count ? piece : Array(bytes[start...]) + piece
        start = 0
    }

    /// Returns the next line that is not empty, without its line end; nil if its end has not been read.
    /// - Parameter isAtEnd: whether all pieces of the file have been added.
    mutating func next(isAtEnd: Bool = false) throws(DeviceFileError) -> ArraySlice<UInt8>? {
        while let end = endOfLine(isAtEnd: isAtEnd) {
            var line = bytes[start..<end]
            start = min(end + 1, bytes.count)
            number = nextNumber
            nextNumber += 1 + line.count { $0 == UInt8(ascii: "\n") }
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            if number == 1 {
                // Spreadsheets write a byte order mark.
                if line.starts(with: [0xEF, 0xBB, 0xBF]) { line.removeFirst(3) }
                if line.starts(with: [0xFF, 0xFE]) || line.starts(with: [0xFE, 0xFF]) {
                    throw problem("the file is UTF-16 text: save it as UTF-8, which spreadsheets call 'CSV UTF-8'")
                }
            }
            if number == 1, line.contains(UInt8(ascii: "\r")) { throw problem(Self.oldLineEnds) }
            if !line.isEmpty { return line }
        }
        guard bytes.count - start <= Self.longest else {
            number = nextNumber
            if number == 1, bytes[start...].contains(UInt8(ascii: "\r")) { throw problem(Self.oldLineEnds) }
            throw problem("the line is longer than 64 KiB")
        }
        return nil
    }

    /// Returns an error about the line that was taken last.
    func problem(_ text: String) -> DeviceFileError {
        DeviceFileError(file: file, line: max(number, 1), problem: text)
    }

    /// Returns where the first line that was not taken ends; nil if its end has not been read. A quoted field longer
    /// than ``longest`` does not continue in the next line.
    private func endOfLine(isAtEnd: Bool) -> Int? {
        guard start < bytes.count else { return nil }
        let (newline, mark) = (UInt8(ascii: "\n"), UInt8(ascii: "\""))
        let first = bytes[start...].firstIndex(of: newline)
        guard let first else { return isAtEnd ? bytes.count : nil }
        guard let separator, bytes[start..<first].contains(mark) else { return first }
        var scan = QuotedFields(separator: separator)
        for index in start..<min(bytes.count, start + Self.longest) {
            let byte = bytes[index]
            if !scan.isOpen, byte == newline { return index }
            if !scan.isOpen, byte == UInt8(ascii: "\r") {
                let next = index + 1
                if next == bytes.count { return isAtEnd ? next : nil }
                if bytes[next] == newline { return next }
            }
            if scan.take(byte) == .misplaced { return first }
        }
        guard bytes.count - start <= Self.longest else { return first }
        guard isAtEnd else { return nil }
        return scan.isOpen ? first : bytes.count
    }
}

/// What is wrong with a line of a file of devices or users. The text never contains a token.
package struct DeviceFileError: Error, Equatable, CustomStringConvertible {
    package let file: String
    /// Counted from 1, as in editors.
    package let line: Int
    package let problem: String

    package var description: String { "\(file):\(line): \(problem)" }
}
