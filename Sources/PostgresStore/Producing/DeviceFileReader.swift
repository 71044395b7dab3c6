import QueueCore

/// Reads devices from a CSV with a header, or from bare tokens, one a line. Its columns are `token`, and `user_key` and
/// `active` if they are there; they are divided by commas, semicolons or tabs.
///
/// Bytes in, rows for COPY out: `token bytea, user_key text, active boolean`. A million devices pass in a fraction of a
/// second, since nothing is allocated for a line unless it has several columns.
package struct DeviceFileReader: Sendable {
    /// Devices read so far.
    package private(set) var deviceCount = 0
    /// Lines among them whose column `active` says that the device is not: an export of all devices has them.
    package private(set) var inactiveCount = 0

    private let file: String
    private var line = 0
    private var columns: Columns?
    private var separator = UInt8(ascii: ",")
    /// The beginning of a line whose end has not come yet.
    private var rest: [UInt8] = []
    /// The token that is being read.
    private var token: [UInt8] = []

    /// Longer lines are no devices: the bound keeps a file without newlines out of memory.
    private static let longestLine = 64 * 1024

    /// Which field of a line is what.
    private struct Columns {
        var token: Int
        var userKey: Int?
        var active: Int?
        var count: Int
    }

    private static let knownColumns = ["token", "user_key", "active"]
    /// As spreadsheets write them, depending on the country.
    private static let separators = [UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "\t")]

    /// A reader of a file of that name, which errors begin with.
    package init(file: String) {
        self.file = file
        token.reserveCapacity(DeviceToken.maximumBytes)
    }

    /// Reads a piece of the file and adds its rows to `rows`.
    package mutating func read(_ piece: [UInt8], into rows: inout CopyRows) throws(DeviceFileError) {
        let bytes = rest.isEmpty ? piece : rest + piece
        var start = 0
        while let end = bytes[start...].firstIndex(of: UInt8(ascii: "\n")) {
            try readLine(bytes[start..<end], into: &rows)
            start = end + 1
        }
        rest = Array(bytes[start...])
        guard rest.count <= Self.longestLine else { throw problem("the line is longer than 64 KiB", at: line + 1) }
    }

    /// Reads what follows the last newline.
    package mutating func finish(into rows: inout CopyRows) throws(DeviceFileError) {
        let last = rest
        rest = []
        if !last.isEmpty { try readLine(last[...], into: &rows) }
    }

    private mutating func readLine(_ text: ArraySlice<UInt8>, into rows: inout CopyRows) throws(DeviceFileError) {
        line += 1
        var text = text
        if text.last == UInt8(ascii: "\r") { text.removeLast() }
        // The byte order mark that spreadsheets write.
        if line == 1, text.starts(with: [0xEF, 0xBB, 0xBF]) { text.removeFirst(3) }
        guard !text.isEmpty else { return }
        if columns == nil, try readHeader(text) { return }
        guard let columns else { preconditionFailure("a header or a first token sets the columns") }
        try readDevice(text, columns, into: &rows)
    }

    /// Returns whether the first line is a header, which has a field `token`. If not, there are only tokens.
    private mutating func readHeader(_ text: ArraySlice<UInt8>) throws(DeviceFileError) -> Bool {
        separator = Self.separators.first { text.contains($0) } ?? separator
        let names = try fields(of: text).map { field in
            String(decoding: field, as: UTF8.self).split(separator: " ").joined().lowercased()
        }
        guard let token = names.firstIndex(of: "token") else {
            guard names.count == 1, Suggestion.nearest(to: names[0], among: ["token"]) == nil else {
                throw problem(Self.missingToken(among: names))
            }
            columns = Columns(token: 0, userKey: nil, active: nil, count: 1)
            return false
        }
        if let unknown = names.first(where: { !Self.knownColumns.contains($0) }) {
            throw problem(Self.unknownColumn(unknown))
        }
        if let twice = Self.knownColumns.first(where: { name in names.count { $0 == name } > 1 }) {
            throw problem("the column '\(twice)' is there twice")
        }
        columns = Columns(
            token: token, userKey: names.firstIndex(of: "user_key"), active: names.firstIndex(of: "active"),
            count: names.count)
        return true
    }

    private static func missingToken(among names: [String]) -> String {
        let near = names.first { Suggestion.nearest(to: $0, among: ["token"]) != nil }
        return "there is no column 'token' in the header" + (near.map { "; is '\($0)' meant for it?" } ?? "")
    }

    private static func unknownColumn(_ name: String) -> String {
        let near = Suggestion.nearest(to: name, among: knownColumns).map { "; did you mean '\($0)'?" } ?? ""
        return
            "the column '\(name.prefix(40))' is not known (columns are \(knownColumns.joined(separator: ", ")))\(near)"
    }

    private mutating func readDevice(
        _ text: ArraySlice<UInt8>, _ columns: Columns, into rows: inout CopyRows
    ) throws(DeviceFileError) {
        if columns.count == 1 {
            deviceCount += 1
            try readToken(text)
            rows.startRow(columns: 3)
            rows.add(token.span)
            rows.addNull()
            return rows.add(true)
        }
        let fields = try fields(of: text)
        guard fields.count == columns.count else {
            throw problem("the line has \(fields.count) fields, and the header has \(columns.count)")
        }
        try readToken(fields[columns.token])
        let isActive =
            try columns.active.map { index throws(DeviceFileError) in try readBoolean(fields[index]) } ?? true
        deviceCount += 1
        if !isActive { inactiveCount += 1 }
        rows.startRow(columns: 3)
        rows.add(token.span)
        if let userKey = try columns.userKey.map({ index throws(DeviceFileError) in try readUserKey(fields[index]) }),
            !userKey.isEmpty
        {
            rows.add(userKey)
        } else {
            rows.addNull()
        }
        rows.add(isActive)
    }

    private func readUserKey(_ field: ArraySlice<UInt8>) throws(DeviceFileError) -> String {
        guard let text = String(validating: field, as: UTF8.self), !text.utf8.contains(0) else {
            throw problem("the user key is not UTF-8 text")
        }
        return text
    }

    private func readBoolean(_ field: ArraySlice<UInt8>) throws(DeviceFileError) -> Bool {
        switch String(decoding: field, as: UTF8.self).lowercased() {
        case "true", "": return true
        case "false": return false
        default: throw problem("the column 'active' is neither true nor false")
        }
    }

    /// Reads hexadecimal digits into `token`; what is anything else is left to `DeviceToken`, which says what is wrong.
    private mutating func readToken(_ field: ArraySlice<UInt8>) throws(DeviceFileError) {
        token.removeAll(keepingCapacity: true)
        var high: UInt8?
        for byte in field {
            let digit = Self.digits[Int(byte)]
            guard digit < 16, token.count < DeviceToken.maximumBytes else { return try readUnusualToken(field) }
            if let first = high {
                token.append(first << 4 | digit)
                high = nil
            } else {
                high = digit
            }
        }
        if high != nil || token.isEmpty { try readUnusualToken(field) }
    }

    private mutating func readUnusualToken(_ field: ArraySlice<UInt8>) throws(DeviceFileError) {
        do throws(DeviceTokenError) {
            token = try DeviceToken(hex: String(decoding: field, as: UTF8.self)).bytes
        } catch {
            throw problem(error.description)
        }
    }

    /// The value of each hexadecimal digit; 255 for other bytes.
    private static let digits: [UInt8] = (0...255).map { byte in
        Character(UnicodeScalar(UInt8(byte))).hexDigitValue.map(UInt8.init) ?? 255
    }

    private func fields(of text: ArraySlice<UInt8>) throws(DeviceFileError) -> [ArraySlice<UInt8>] {
        guard text.contains(UInt8(ascii: "\"")) else {
            return text.split(separator: separator, omittingEmptySubsequences: false)
        }
        guard let fields = QuotedFields.split(text, at: separator) else {
            throw problem("a quotation mark is not closed")
        }
        return fields
    }

    private func problem(_ text: String, at line: Int? = nil) -> DeviceFileError {
        DeviceFileError(file: file, line: line ?? self.line, problem: text)
    }
}

/// What is wrong with a line of a file of devices. The text never holds a token.
package struct DeviceFileError: Error, Equatable, CustomStringConvertible {
    package let file: String
    /// Counted from 1, as editors do.
    package let line: Int
    package let problem: String

    package var description: String { "\(file):\(line): \(problem)" }
}

/// A line with quoted fields (RFC 4180 §2; but a field does not go on in the next line).
private enum QuotedFields {
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
