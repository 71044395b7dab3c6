package import QueueCore

/// Reads devices from a CSV with a header, from NDJSON, or from bare tokens, one per line. ``DeviceColumn`` lists the
/// columns of a CSV and the members of an object. Commas, semicolons or tabs separate columns.
///
/// It takes bytes and returns rows for COPY, with the number of each line: see `makeDeviceStage`. It reads a million
/// tokens in a fraction of a second, because it allocates nothing for a line that has only one column.
package struct DeviceFileReader: Sendable {
    /// Devices read so far.
    package private(set) var deviceCount = 0
    /// Lines among them whose column `active` says that the device is inactive. An export of all devices has such
    /// lines.
    package private(set) var inactiveCount = 0
    /// Lines among them that name a user or what the token is for.
    private(set) var namedCount = 0
    /// Lines among them that say more than the token, the user and whether the device is active.
    private(set) var profileCount = 0
    /// Lines that were refused. Stays 0 unless the reader continues after a broken line.
    private(set) var refusedCount = 0
    /// The first refusals, at most ``toldRefusals``.
    private(set) var refusals: [DeviceFileError] = []
    /// The tokens of the lines, if the reader keeps them.
    package private(set) var tokens: [DeviceToken] = []
    /// The tokens of the lines, if they are collected instead of written as rows; nil as soon as the file turns out to
    /// have more than bare tokens.
    private(set) var collected: BareTokens?

    private let purpose: Purpose
    private let notesBrokenLines: Bool
    private let keepsTokens: Bool
    private var lines: FileLines
    private var form: Form?
    private var separator = UInt8(ascii: ",")
    /// The token that is being read.
    private var token: [UInt8] = []

    /// The maximum number of refusals that are kept with their text. Further ones are only counted.
    static let toldRefusals = 100

    /// What the lines are, as the first line shows.
    private enum Form {
        case tokens
        case table([DeviceColumn])
        case objects
    }

    /// Spreadsheets use one of these, depending on the country.
    private static let separators = [UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "\t")]

    /// What the devices are read for. It decides what an error says about an unknown column.
    package enum Purpose {
        case importing
        /// Counts only the tokens of active devices.
        case sending
    }

    /// Creates a reader. Errors begin with the name of the file.
    /// - Parameters:
    ///   - notesBrokenLines: whether a broken line is noted in ``refusals``; if not, it is an error.
    ///   - keepsTokens: whether ``tokens`` is filled. Only for small files.
    package init(file: String, for purpose: Purpose, notesBrokenLines: Bool = false, keepsTokens: Bool = false) {
        self.purpose = purpose
        self.notesBrokenLines = notesBrokenLines
        self.keepsTokens = keepsTokens
        lines = FileLines(file: file)
        token.reserveCapacity(DeviceToken.maximumBytes)
    }

    /// Collects the tokens, if the file has nothing else. Called before anything is read.
    mutating func collectTokens() { collected = BareTokens() }

    /// Returns the collected tokens. What is read from now on is written as rows.
    mutating func takeTokens() -> BareTokens? {
        defer { collected = nil }
        return collected
    }

    /// Reads a piece of the file and adds its rows to `rows`.
    package mutating func read(_ piece: [UInt8], into rows: inout CopyRows) throws(DeviceFileError) {
        lines.add(piece)
        while let line = try lines.next() { try readLine(line, into: &rows) }
    }

    /// Reads what follows the last newline.
    package mutating func finish(into rows: inout CopyRows) throws(DeviceFileError) {
        while let line = try lines.next(isAtEnd: true) { try readLine(line, into: &rows) }
        // A file with only a header is valid: it is the export of a queue without devices.
        guard form != nil else { throw lines.problem("the file is empty") }
    }

    private mutating func readLine(_ text: ArraySlice<UInt8>, into rows: inout CopyRows) throws(DeviceFileError) {
        if form == nil {
            let isHeader = try readHeader(text)
            if !hasBareTokens { collected = nil }
            if isHeader { return }
        }
        do throws(DeviceFieldProblem) {
            try readDevice(text, into: &rows)
        } catch {
            let problem = lines.problem(error.text)
            guard notesBrokenLines else { throw problem }
            refusedCount += 1
            if refusals.count < Self.toldRefusals { refusals.append(problem) }
        }
    }

    private var hasBareTokens: Bool {
        if case .tokens = form { true } else { false }
    }

    /// Returns whether the first line is a header, which has a field `token`. If not, the file has only tokens, or only
    /// objects.
    private mutating func readHeader(_ text: ArraySlice<UInt8>) throws(DeviceFileError) -> Bool {
        guard text.first != UInt8(ascii: "{") else {
            form = .objects
            return false
        }
        separator = Self.separators.first { text.contains($0) } ?? separator
        let fields: [ArraySlice<UInt8>]
        do throws(DeviceFieldProblem) {
            fields = try QuotedFields.split(text, at: separator)
        } catch {
            throw lines.problem(error.text)
        }
        let names = fields.map { field in
            String(decoding: field, as: UTF8.self).split(separator: " ").joined().lowercased()
        }
        guard names.contains("token") else {
            guard names.count == 1, Suggestion.nearest(to: names[0], among: ["token"]) == nil else {
                throw lines.problem(Self.missingToken(among: names))
            }
            form = .tokens
            return false
        }
        var columns: [DeviceColumn] = []
        for name in names {
            guard let column = DeviceColumn(rawValue: name) else { throw lines.problem(unknown(name, "column")) }
            guard !columns.contains(column) else { throw lines.problem("the column '\(name)' is there twice") }
            columns.append(column)
        }
        form = columns == [.token] ? .tokens : .table(columns)
        if case .table = form { lines.separator = separator }
        return true
    }

    private static func missingToken(among names: [String]) -> String {
        let near = names.first { Suggestion.nearest(to: $0, among: ["token"]) != nil }
        return "there is no column 'token' in the header" + (near.map { "; is '\($0)' meant for it?" } ?? "")
    }

    private func unknown(_ name: String, _ what: String) -> String {
        let known = DeviceColumn.allCases.map(\.rawValue)
        let near = Suggestion.nearest(to: name, among: known).map { "; did you mean '\($0)'?" }
        let problem = "the \(what) '\(name.prefix(40))' is not known"
        switch purpose {
        case .importing:
            return "\(problem) (\(what)s are \(known.joined(separator: ", ")))"
                + (near ?? "; what else is known of a device is in 'attributes', as JSON")
        case .sending:
            return "\(problem): only 'token' and 'active' count here, and what 'device export' writes beside them is "
                + "passed over" + (near ?? "; leave the \(what) out")
        }
    }

    private mutating func readDevice(
        _ text: ArraySlice<UInt8>, into rows: inout CopyRows
    ) throws(DeviceFieldProblem) {
        var device = DeviceLine()
        switch form {
        case .tokens, nil: try readToken(QuotedFields.value(text))
        case .table(let columns): try readFields(of: text, columns, into: &device)
        case .objects: try readObject(text, into: &device)
        }
        deviceCount += 1
        if !device.isActive { inactiveCount += 1 }
        if keepsTokens, device.isActive, let kept = try? DeviceToken(bytes: token) { tokens.append(kept) }
        if device.userKey != nil || device.kind != nil { namedCount += 1 }
        if device.hasProfile { profileCount += 1 }
        guard collected?.append(token) == nil else { return }
        rows.startRow(columns: 1 + DeviceColumn.allCases.count)
        rows.add(Int64(lines.number))
        rows.add(token.span)
        device.add(to: &rows)
    }

    private mutating func readFields(
        of text: ArraySlice<UInt8>, _ columns: [DeviceColumn], into device: inout DeviceLine
    ) throws(DeviceFieldProblem) {
        let fields = try fields(of: text)
        guard fields.count == columns.count else {
            throw DeviceFieldProblem(
                "the line has \(fields.count.counted("field")), and the header has \(columns.count)")
        }
        for (column, field) in zip(columns, fields) {
            guard column != .token else {
                try readToken(field)
                continue
            }
            if field.isEmpty { continue }
            let name = { column == .userKey ? "the user key" : "'\(column.rawValue)'" }
            try device.set(column, to: DeviceFieldProblem.text(of: field, named: name))
        }
    }

    private mutating func readObject(
        _ text: ArraySlice<UInt8>, into device: inout DeviceLine
    ) throws(DeviceFieldProblem) {
        guard let line = String(validating: text, as: UTF8.self) else {
            throw DeviceFieldProblem("the line is not UTF-8 text")
        }
        var reader = JSONReader(line)
        guard let object = try? reader.read(), let members = object.members else {
            throw DeviceFieldProblem("the line is not a JSON object")
        }
        guard reader.invalidEscape == nil else {
            throw DeviceFieldProblem(
                "the line has a character that PostgreSQL cannot store: \\u0000, or half of a surrogate pair")
        }
        var hasToken = false
        var columns: [DeviceColumn] = []
        for member in members {
            guard let column = DeviceColumn(rawValue: member.name) else {
                throw DeviceFieldProblem(unknown(member.name, "member"))
            }
            guard !columns.contains(column) else {
                throw DeviceFieldProblem("the member '\(member.name)' is there twice")
            }
            columns.append(column)
            if column == .token, case .string(let token) = member.node.value {
                try readToken(Array(token.utf8)[...])
                hasToken = true
            } else {
                try device.set(column, to: member.node)
            }
        }
        guard hasToken else { throw DeviceFieldProblem("there is no member 'token' with a text") }
    }

    /// Reads hexadecimal digits into `token`. Leaves any other text to `DeviceToken`, which says what is wrong.
    private mutating func readToken(_ field: ArraySlice<UInt8>) throws(DeviceFieldProblem) {
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

    private mutating func readUnusualToken(_ field: ArraySlice<UInt8>) throws(DeviceFieldProblem) {
        do throws(DeviceTokenError) {
            token = try DeviceToken(hex: String(decoding: field, as: UTF8.self)).bytes
        } catch {
            throw DeviceFieldProblem(error.description)
        }
    }

    /// The value of each hexadecimal digit; 255 for other bytes.
    private static let digits: [UInt8] = (0...255).map { byte in
        Character(UnicodeScalar(UInt8(byte))).hexDigitValue.map(UInt8.init) ?? 255
    }

    private func fields(of text: ArraySlice<UInt8>) throws(DeviceFieldProblem) -> [ArraySlice<UInt8>] {
        guard text.contains(UInt8(ascii: "\"")) else {
            return text.split(separator: separator, omittingEmptySubsequences: false)
        }
        return try QuotedFields.split(text, at: separator)
    }
}
