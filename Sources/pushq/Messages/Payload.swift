import QueueCore
import Terminal

/// A payload as it was given, so that findings can say where in it they are.
struct Payload {
    /// What is sent, byte for byte: without the space that an editor leaves at the end.
    let text: String
    /// The file, where there is one.
    private let file: (name: String, contents: String)?

    /// Reads a file.
    init(_ file: InputFile) throws {
        var bytes = try file.contents()
        // The mark with which some editors begin a text. JSON has none (RFC 8259 §8.1).
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
        guard let contents = String(validating: bytes, as: UTF8.self) else {
            throw Failure("\(file.name): the payload is not UTF-8 text")
        }
        text = contents.trimmed()
        self.file = (file.name, contents)
    }

    /// An alert that is only a text.
    /// - Parameter badgeIncrement: by how much it raises the number on the app's icon.
    init(alert: String, badgeIncrement: Int? = nil) {
        var aps: JSON = ["alert": .string(alert)]
        if let badgeIncrement { aps = ["alert": .string(alert), "badge": ["increment": .integer(badgeIncrement)]] }
        let payload: JSON = ["aps": aps]
        text = payload.text
        file = nil
    }

    /// Where in its file a finding is; nil for what is not in the file.
    func position(of finding: Finding) -> TextPosition? {
        guard let file, let offset = finding.offset else { return nil }
        let start = file.contents.utf8.count - file.contents.trimmingPrefix(while: \.isWhitespace).utf8.count
        return TextPosition(ofByte: start + offset, in: file.contents)
    }

    /// A finding with its place, as compilers write it: `payload.json:3:7: …`.
    func line(for finding: Finding, label: String = "") -> String {
        guard let file else { return label + finding.text }
        let place = position(of: finding).map { ":\($0.line):\($0.column)" } ?? ""
        return "\(file.name)\(place): \(label)\(finding.text)"
    }

    /// - Throws: ``Failure`` with the first error among what was found in this payload.
    func refuseErrors(among findings: [Finding]) throws(Failure) {
        let errors = findings.filter { $0.severity == .error }
        guard let first = errors.first else { return }
        let more = errors.count > 1 ? " (and \(errors.count - 1) more, which 'pushq lint' shows)" : ""
        throw Failure(line(for: first) + more)
    }
}
