import QueueCore

/// Reads users from a CSV with a column `user_key`, or from bare keys, one per line. Ignores other columns, so an
/// export of devices or of another system works. Skips lines without a user.
package struct UserFileReader: Sendable {
    /// Lines with a user so far.
    package private(set) var userCount = 0

    private var lines: FileLines
    private var form: Form?
    private var separator = UInt8(ascii: ",")

    /// The name of the column.
    private static let column = "user_key"

    /// What the lines are, as the first line shows.
    private enum Form {
        case keys
        /// The index of the column, and the number of columns.
        case table(Int, count: Int)
    }

    /// Creates a reader. Errors begin with the name of the file.
    package init(file: String) {
        lines = FileLines(file: file)
    }

    /// Reads a piece of the file and adds its users to `users`.
    package mutating func read(_ piece: [UInt8], into users: inout [String]) throws(DeviceFileError) {
        lines.add(piece)
        while let line = try lines.next() { try readLine(line, into: &users) }
    }

    /// Reads what follows the last newline.
    package mutating func finish(into users: inout [String]) throws(DeviceFileError) {
        while let line = try lines.next(isAtEnd: true) { try readLine(line, into: &users) }
    }

    private mutating func readLine(_ text: ArraySlice<UInt8>, into users: inout [String]) throws(DeviceFileError) {
        if form == nil, try readHeader(text) { return }
        do throws(DeviceFieldProblem) {
            guard case .table(let place, let count) = form else {
                return try add(QuotedFields.value(text), to: &users)
            }
            let fields = try QuotedFields.split(text, at: separator)
            guard fields.count == count else {
                throw DeviceFieldProblem(
                    "the line has \(fields.count.counted("field")), and the header has \(count)")
            }
            try add(fields[place], to: &users)
        } catch {
            throw lines.problem(error.text)
        }
    }

    /// Returns whether the first line is a header. If not, the file has only keys, which may contain any character
    /// except a newline.
    private mutating func readHeader(_ text: ArraySlice<UInt8>) throws(DeviceFileError) -> Bool {
        let separators = [UInt8(ascii: ","), UInt8(ascii: ";"), UInt8(ascii: "\t")]
        separator = separators.first { text.contains($0) } ?? separator
        let names = (try? QuotedFields.split(text, at: separator))?.map { field in
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
            let near = Suggestion.nearest(to: Self.column, among: names).map { "; is '\($0)' meant for it?" }
            // A first key with a comma looks like a header.
            let key = names.count > 1 ? "; if this line is a user key, write it in quotation marks" : ""
            throw lines.problem("there is no column '\(Self.column)' in the header" + (near ?? key))
        }
        guard !names[(place + 1)...].contains(Self.column) else {
            throw lines.problem("the column '\(Self.column)' is there twice")
        }
        form = .table(place, count: names.count)
        lines.separator = separator
        return true
    }

    private mutating func add(_ field: ArraySlice<UInt8>, to users: inout [String]) throws(DeviceFieldProblem) {
        guard !field.isEmpty else { return }
        let user = try DeviceFieldProblem.text(of: field) { "the user key" }
        guard user.utf8.count <= 200 else { throw DeviceFieldProblem("the user key has more than 200 bytes") }
        userCount += 1
        users.append(user)
    }
}
