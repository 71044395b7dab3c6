/// A finding of the rules about a message: where, what is wrong, and what to do.
package struct Finding: Equatable, Sendable {
    package enum Severity: String, Sendable {
        /// APNs or the device would refuse the message, so it is not accepted.
        case error
        /// The message is accepted, but is probably not what the producer meant.
        case warning
    }

    package let severity: Severity
    /// The place: a key path such as `aps.alert.title`, or `payload`, `priority`, `expiration`, `collapse-id`.
    package let path: String
    /// What is wrong there.
    package let problem: String
    /// What to do about it.
    package let remedy: String
    /// The byte of the payload that the finding is about; nil if the finding is not about a place in the payload.
    package let offset: Int?

    static func error(_ path: String, _ problem: String, _ remedy: String, at offset: Int? = nil) -> Finding {
        Finding(severity: .error, path: path, problem: problem, remedy: remedy, offset: offset)
    }

    static func warning(_ path: String, _ problem: String, _ remedy: String, at offset: Int? = nil) -> Finding {
        Finding(severity: .warning, path: path, problem: problem, remedy: remedy, offset: offset)
    }

    /// The finding on one line, in the words of `pushq.send`.
    package var text: String { "\(problem): \(remedy)" }
}

/// A position in a text as editors count it.
package struct TextPosition: Equatable, Sendable {
    /// The line, from 1.
    package let line: Int
    /// The column, in characters from 1.
    package let column: Int

    /// Returns the position of the byte at `offset` of `text`.
    package init(ofByte offset: Int, in text: String) {
        let before = text.utf8.prefix(offset)
        line = before.count { $0 == UInt8(ascii: "\n") } + 1
        column =
            String(decoding: before.reversed().prefix { $0 != UInt8(ascii: "\n") }.reversed(), as: UTF8.self).count + 1
    }
}
