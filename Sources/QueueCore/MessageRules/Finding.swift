/// What the rules say about a message: where, what is wrong, and what to do.
package struct Finding: Equatable, Sendable {
    package enum Severity: String, Sendable {
        /// APNs or the device would refuse it, so it is not accepted.
        case error
        /// It is accepted, but probably not what was meant.
        case warning
    }

    package let severity: Severity
    /// Where: a key path such as `aps.alert.title`, or `payload`, `priority`, `expiration`, `collapse-id`.
    package let path: String
    /// What is wrong there.
    package let problem: String
    /// What to do about it.
    package let remedy: String
    /// The byte of the payload that it is about; nil if it is not about a place in the payload.
    package let offset: Int?

    static func error(_ path: String, _ problem: String, _ remedy: String, at offset: Int? = nil) -> Finding {
        Finding(severity: .error, path: path, problem: problem, remedy: remedy, offset: offset)
    }

    static func warning(_ path: String, _ problem: String, _ remedy: String, at offset: Int? = nil) -> Finding {
        Finding(severity: .warning, path: path, problem: problem, remedy: remedy, offset: offset)
    }

    /// One line, as `pushq.send` says it too.
    package var text: String { "\(problem): \(remedy)" }
}

/// A place in a text as editors count it.
package struct TextPosition: Equatable, Sendable {
    /// From 1.
    package let line: Int
    /// From 1, in characters.
    package let column: Int

    /// Where the byte at `offset` of `text` stands.
    package init(ofByte offset: Int, in text: String) {
        let before = text.utf8.prefix(offset)
        line = before.count { $0 == UInt8(ascii: "\n") } + 1
        column =
            String(decoding: before.reversed().prefix { $0 != UInt8(ascii: "\n") }.reversed(), as: UTF8.self).count + 1
    }
}
