package import PostgresStore
import Transport

/// The keys that seal credentials in the database: each has 32 bytes, written as 64 hexadecimal digits. The first key
/// seals; all keys open.
///
/// They are never arguments, since every user of the machine can read arguments. A key file must be accessible only to
/// its owner, as ssh(1) demands for private keys: it is refused if it belongs to this process's user and other users
/// have any access to it. This process cannot change the mode of another user's file; if every user may read or write
/// that file, there is a warning.
package struct MasterKeySetting: Sendable {
    private let environment: [String: String]

    /// The setting of this process's environment.
    package init() {
        self.init(environment: ThisProcess.environment)
    }

    init(environment: [String: String]) {
        self.environment = environment
    }

    /// Whether master keys are set.
    package var isGiven: Bool {
        value(of: "PUSHQ_MASTER_KEY") != nil || value(of: "PUSHQ_MASTER_KEY_FILE") != nil
    }

    /// Returns the keys. Forbids core dumps of this process before it reads the keys, since a dump could contain them.
    ///
    /// - Parameter warn: called for a file that every user may read or write.
    /// - Throws: ``Failure`` that says where the keys were looked for and how to make one.
    package func keys(_ warn: (String) -> Void) throws -> MasterKeys {
        CoreDumps.forbid()
        if let text = value(of: "PUSHQ_MASTER_KEY") {
            return try decode(text, source: "PUSHQ_MASTER_KEY")
        }
        guard let path = value(of: "PUSHQ_MASTER_KEY_FILE") else { throw Failure(Messages.masterKeyMissing) }
        let file = SecretFile(path)
        switch file.exposure {
        case .own(let mode): throw Failure(Messages.masterKeyExposed(path, mode: mode))
        case .others(let mode): warn(Messages.secretExposed(path, mode: mode, isOwn: false))
        case nil: break
        }
        let text = String(decoding: try InputFile(path).contents(), as: UTF8.self)
        return try decode(text, source: path)
    }

    /// The value of a variable. An empty one counts as missing, as for ``DatabaseAddress``: scripts and units set a
    /// variable to nothing where they have no value for it.
    private func value(of variable: String) -> String? {
        environment[variable].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// Decodes keys that are separated by line ends, blanks or commas. The text behind a `#` is a comment.
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
    /// Returns the bytes; nil if `text` is anything else.
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
