import QueueCore

extension String {
    /// The text as an SQL identifier that can be pasted into a statement, with capitals and hyphens (PostgreSQL manual,
    /// 4.1.1).
    var quotedIdentifier: String { "\"\(replacing(scalar: "\"", with: "\"\""))\"" }
}
