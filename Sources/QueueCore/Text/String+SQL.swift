extension String {
    /// The text as a literal in SQL (PostgreSQL manual, 4.1.2) or in a filter. In SQL, a backslash stands for itself
    /// only while `standard_conforming_strings` is on.
    package var quotedLiteral: String { "'\(replacing(scalar: "'", with: "''"))'" }

    /// The text as an SQL identifier that can be pasted into a statement, with capitals and hyphens (PostgreSQL manual,
    /// 4.1.1).
    package var quotedIdentifier: String { "\"\(replacing(scalar: "\"", with: "\"\""))\"" }
}
