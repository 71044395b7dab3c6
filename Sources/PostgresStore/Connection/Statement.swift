/// A statement that the program runs: its name, in errors and logs, and its text.
///
/// Written as a constant beside the function that binds it. Each connection prepares it on first use.
package struct Statement: Sendable {
    /// A few words with underscores, for people: `claim`, `finish_duty`.
    package let name: String
    package let sql: String
    /// What the server knows it by. A transaction pooler may hand a connection to several versions of this program in turn, so
    /// that a name alone could run another version's text: the text is part of the name.
    let preparedName: String

    package init(_ name: String, _ sql: String) {
        self.name = name
        self.sql = sql
        preparedName = "pushq_\(name.prefix(40))_\(String(Self.fingerprint(of: sql), radix: 16))"
    }

    /// FNV-1a, 64 bits.
    private static func fingerprint(of text: String) -> UInt64 {
        text.utf8.reduce(0xcbf2_9ce4_8422_2325) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
    }
}
