import QueueCore
import Terminal

/// A payload as it was given, so that findings can name their places in it.
struct Payload {
    /// The payload that is sent, byte for byte, without white space at its beginning or end, such as an editor's last
    /// newline.
    let text: String
    /// The file that it was read from, if any.
    private let file: (name: String, contents: String)?

    /// Reads a file.
    init(_ file: InputFile) throws {
        var bytes = try file.contents()
        // Some editors begin a text with this mark. JSON has none (RFC 8259 §8.1).
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
        guard let contents = String(validating: bytes, as: UTF8.self) else {
            throw Failure("\(file.name): the payload is not UTF-8 text")
        }
        text = contents.trimmed()
        self.file = (file.name, contents)
    }

    /// An alert that has only a text.
    /// - Parameter badgeIncrement: how much to add to the number on the app's icon.
    init(alert: String, badgeIncrement: Int? = nil) {
        var aps: JSON = ["alert": .string(alert)]
        if let badgeIncrement { aps = ["alert": .string(alert), "badge": ["increment": .integer(badgeIncrement)]] }
        let payload: JSON = ["aps": aps]
        text = payload.text
        file = nil
    }

    /// The position of a finding in the file; nil if it is not in a file.
    func position(of finding: Finding) -> TextPosition? {
        guard let file, let offset = finding.offset else { return nil }
        let start = file.contents.utf8.count - file.contents.trimmingPrefix(while: \.isWhitespace).utf8.count
        return TextPosition(ofByte: start + offset, in: file.contents)
    }

    /// A finding with its position, in the format of compilers: `payload.json:3:7: …`.
    func line(for finding: Finding, label: String = "") -> String {
        guard let file else { return label + finding.text }
        let place = position(of: finding).map { ":\($0.line):\($0.column)" } ?? ""
        return "\(file.name)\(place): \(label)\(finding.text)"
    }

    /// - Throws: ``Failure`` with the first error among these findings.
    func refuseErrors(among findings: [Finding]) throws(Failure) {
        let errors = findings.filter { $0.severity == .error }
        guard let first = errors.first else { return }
        let more = errors.count > 1 ? " (and \(errors.count - 1) more, which 'pushq lint' shows)" : ""
        throw Failure(line(for: first) + more)
    }
}
