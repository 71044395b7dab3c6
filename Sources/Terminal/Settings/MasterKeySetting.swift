package import PostgresStore
import Transport

/// The keys under which credentials are sealed in the database: each of 32 bytes, as 64 hexadecimal digits. The first
/// seals, all open.
///
/// They are never arguments, since those can be read by every user of the machine. A file with them has to be its
/// owner's alone, by the rule of ssh(1) for private keys: it is refused if it belongs to this process's user and others
/// have any access to it. One of another user is out of this process's hands; if everybody may read it, there is a
/// warning.
package struct MasterKeySetting: Sendable {
    private let environment: [String: String]

    /// The setting of this process's environment.
    package init() {
        self.init(environment: ThisProcess.environment)
    }

    init(environment: [String: String]) {
        self.environment = environment
    }

    /// Whether there is one.
    package var isGiven: Bool {
        environment["PUSHQ_MASTER_KEY"] != nil || environment["PUSHQ_MASTER_KEY_FILE"] != nil
    }

    /// The keys. Before they are read, this process is kept from leaving a core dump, in which they could be found.
    ///
    /// - Parameter warn: told of a file that everybody may read.
    /// - Throws: ``Failure`` that says where they were looked for and how to make one.
    package func keys(_ warn: (String) -> Void) throws -> MasterKeys {
        CoreDumps.forbid()
        if let text = environment["PUSHQ_MASTER_KEY"] {
            return try decode(text, source: "PUSHQ_MASTER_KEY")
        }
        guard let path = environment["PUSHQ_MASTER_KEY_FILE"] else { throw Failure(Messages.masterKeyMissing) }
        let file = SecretFile(path)
        switch file.exposure {
        case .own(let mode): throw Failure(Messages.masterKeyExposed(path, mode: mode))
        case .others(let mode): warn(Messages.secretExposed(path, mode: mode, isOwn: false))
        case nil: break
        }
        let text = String(decoding: try InputFile(path).contents(), as: UTF8.self)
        return try decode(text, source: path)
    }

    /// Keys are separated by line ends, blanks or commas. What stands behind a `#` is a comment.
    private func decode(_ text: String, source: String) throws -> MasterKeys {
        let words = text.split(whereSeparator: \.isNewline).flatMap { line in
            line.prefix { $0 != "#" }.split { $0 == "," || $0.isWhitespace }
        }
        let keys = words.compactMap { Hexadecimal.bytes(of: String($0)).flatMap(MasterKey.init) }
        guard let first = keys.first, keys.count == words.count else {
            throw Failure(Messages.masterKeyInvalid(source))
        }
        return MasterKeys(first, opening: Array(keys.dropFirst()))
    }
}

/// Bytes written as pairs of hexadecimal digits.
package enum Hexadecimal {
    /// The bytes, or nil when `text` is anything else.
    package static func bytes(of text: String) -> [UInt8]? {
        let digits = text.utf8.map { Character(UnicodeScalar($0)).hexDigitValue }
        guard digits.count.isMultiple(of: 2), !digits.contains(nil) else { return nil }
        let values = digits.compactMap(\.self)
        return stride(from: 0, to: values.count, by: 2).map { UInt8(values[$0] << 4 | values[$0 + 1]) }
    }

    /// `bytes` in lower-case digits.
    package static func text(of bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789abcdef")
        return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }
}
