import Foundation
package import PostgresStore

/// The key under which credentials are sealed in the database: 32 bytes, as 64 hexadecimal digits.
///
/// It is never an argument, since those can be read by every user of the machine.
package struct MasterKeySetting: Sendable {
    private let environment: [String: String]

    /// The setting of this process's environment.
    package init() {
        self.init(environment: ProcessInfo.processInfo.environment)
    }

    init(environment: [String: String]) {
        self.environment = environment
    }

    /// The key.
    ///
    /// - Throws: ``Failure`` that says where it was looked for and how to make one.
    package func key() throws -> MasterKey {
        if let text = environment["PUSHQ_MASTER_KEY"] {
            return try decode(text, source: "PUSHQ_MASTER_KEY")
        }
        guard let path = environment["PUSHQ_MASTER_KEY_FILE"] else { throw Failure(Messages.masterKeyMissing) }
        let text = String(decoding: try InputFile(path).contents(), as: UTF8.self)
        return try decode(text, source: path)
    }

    private func decode(_ text: String, source: String) throws -> MasterKey {
        guard let bytes = Hexadecimal.bytes(of: text.trimmingCharacters(in: .whitespacesAndNewlines)),
            let key = MasterKey(bytes)
        else { throw Failure(Messages.masterKeyInvalid(source)) }
        return key
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
