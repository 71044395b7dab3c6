import QueueCore

/// Reads users from a CSV with a column `user_key`, or from bare keys, one a line. Other columns are passed over, so
/// that an export of devices or of another system will do; a line without a user is none.
package struct UserFileReader: Sendable {
    /// Lines with a user so far.
    package private(set) var userCount = 0

    private let file: String
    private var line = 0
    private var form: Form?
    private var separator = UInt8(ascii: ",")
    /// The beginning of a line whose end has not come yet.
    private var rest: [UInt8] = []

    /// Longer lines are no users: the bound keeps a file without newlines out of memory.
    private static let longestLine = 64 * 1024
    /// What the column is called.
    private static let column = "user_key"

    /// What the first line has shown that the lines are.
    private enum Form {
        case keys
        /// The place of the column, and how many there are.
        case table(Int, count: Int)
    }

    /// A reader of a file of that name, which errors begin with.
    package init(file: String) {
        self.file = file
    }

    /// Reads a piece of the file and adds its users to `users`.
    package mutating func read(_ piece: [UInt8], into users: inout [String]) throws(DeviceFileError) {
        let bytes = rest.isEmpty ? piece : rest + piece
        var start = 0
        while let end = endOfLine(in: bytes, from: start) {
            try readLine(bytes[start..<end], into: &users)
            start = end + 1
        }
        rest = Array(bytes[start...])
        guard rest.count <= Self.longestLine else {
            let isQuoted = rest.count { $0 == UInt8(ascii: "\"") } % 2 == 1
            throw problem(isQuoted ? "a quotation mark is not closed" : "the line is longer than 64 KiB", at: line + 1)
        }
    }

    /// Reads what follows the last newline.
    package mutating func finish(into users: inout [String]) throws(DeviceFileError) {
        let last = rest
        rest = []
        if !last.isEmpty { try readLine(last[...], into: &users) }
    }

    /// The next newline that ends a line; one between quotation marks of a CSV does not (RFC 4180 §2).
    private func endOfLine(in bytes: [UInt8], from start: Int) -> Int? {
        var isQuoted = false
        let isTable = if case .table = form { true } else { false }
        return bytes[start...].firstIndex { byte in
            if isTable, byte == UInt8(ascii: "\"") { isQuoted.toggle() }
            return byte == UInt8(ascii: "\n") && !isQuoted
        }
    }

    private mutating func readLine(_ text: ArraySlice<UInt8>, into users: inout [String]) throws(DeviceFileError) {
        line += 1
        defer { line += text.count { $0 == UInt8(ascii: "\n") } }
        var text = text
        if text.last == UInt8(ascii: "\r") { text.removeLast() }
        if line == 1 {
            // The byte order mark that spreadsheets write.
            if text.starts(with: [0xEF, 0xBB, 0xBF]) { text.removeFirst(3) }
            if text.beginsUTF16 { throw problem(DeviceFileReader.utf16) }
        }
        guard !text.isEmpty else { return }
        guard let form else {
            if try !readHeader(text) { try add(text, to: &users) }
            return
        }
        guard case .table(let place, let count) = form else { return try add(text, to: &users) }
        guard let fields = QuotedFields.split(text, at: separator) else {
            throw problem("a quotation mark is not closed")
        }
        guard fields.count == count else {
            throw problem("the line has \(fields.count.counted("field")), and the header has \(count)")
        }
        try add(fields[place], to: &users)
    }

    /// Returns whether the first line is a header. If not, there are only keys, which may have any character in them
    /// but a newline.
    private mutating func readHeader(_ text: ArraySlice<UInt8>) throws(DeviceFileError) -> Bool {
        let separators = [UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "\t")]
        separator = separators.first { text.contains($0) } ?? separator
        let names = QuotedFields.split(text, at: separator)?.map { field in
            String(decoding: field, as: UTF8.self).split(separator: " ").joined().lowercased()
        }
        guard let names, let place = names.firstIndex(of: Self.column) else {
            let isHeader = { (name: String) in
                name == "token" || Suggestion.nearest(to: name, among: [Self.column]) != nil
            }
            guard let names, names.count > 1 || isHeader(names[0]) else {
                form = .keys
                return false
            }
            throw problem(
                "there is no column '\(Self.column)' in the header"
                    + (Suggestion.nearest(to: Self.column, among: names).map { "; is '\($0)' meant for it?" } ?? ""))
        }
        form = .table(place, count: names.count)
        return true
    }

    private mutating func add(_ field: ArraySlice<UInt8>, to users: inout [String]) throws(DeviceFileError) {
        guard !field.isEmpty else { return }
        guard let user = String(validating: field, as: UTF8.self), !user.utf8.contains(0) else {
            throw problem("the user key is not UTF-8 text")
        }
        guard user.utf8.count <= 200 else { throw problem("the user key has more than 200 bytes") }
        userCount += 1
        users.append(user)
    }

    private func problem(_ text: String, at line: Int? = nil) -> DeviceFileError {
        DeviceFileError(file: file, line: line ?? self.line, problem: text)
    }
}
