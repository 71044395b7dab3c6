/// Cuts a file that is read piece by piece into its lines.
///
/// A line of a table goes on in the next one while a quotation mark is open (RFC 4180 §2). If it does not end well, a
/// mark was meant as text, and only the line with the mark is broken: those behind it are lines of their own.
struct FileLines {
    /// The line that was taken last, counted from 1, as editors do; 0 before the first.
    private(set) var number = 0
    /// What divides the fields, if the lines to come are those of a table.
    var separator: UInt8?

    private let file: String
    private var bytes: [UInt8] = []
    /// Where in `bytes` the lines begin that have not been taken.
    private var start = 0
    private var nextNumber = 1

    /// The bound keeps a file without newlines out of memory.
    private static let longest = 64 * 1024

    private static let oldLineEnds = "a line ends with CR alone: save the file with LF or CRLF at the ends of lines"

    /// The lines of a file of that name, which errors begin with.
    init(file: String) { self.file = file }

    /// Adds the next piece of the file.
    mutating func add(_ piece: [UInt8]) {
        bytes = start == bytes.count ? piece : Array(bytes[start...]) + piece
        start = 0
    }

    /// The next line that is not empty, without what ends it; nil if it has not come to its end.
    /// - Parameter isAtEnd: whether all pieces of the file have been added.
    mutating func next(isAtEnd: Bool = false) throws(DeviceFileError) -> ArraySlice<UInt8>? {
        while let end = endOfLine(isAtEnd: isAtEnd) {
            var line = bytes[start..<end]
            start = min(end + 1, bytes.count)
            number = nextNumber
            nextNumber += 1 + line.count { $0 == UInt8(ascii: "\n") }
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            if number == 1 {
                // The byte order mark that spreadsheets write.
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

    /// An error about the line that was taken last.
    func problem(_ text: String) -> DeviceFileError {
        DeviceFileError(file: file, line: max(number, 1), problem: text)
    }

    /// Where the first line that has not been taken ends; nil if that has not come. No line goes on in the next one
    /// beyond ``longest``.
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

/// What is wrong with a line of a file of devices or users. The text never holds a token.
package struct DeviceFileError: Error, Equatable, CustomStringConvertible {
    package let file: String
    /// Counted from 1, as editors do.
    package let line: Int
    package let problem: String

    package var description: String { "\(file):\(line): \(problem)" }
}
