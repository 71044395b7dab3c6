/// Identifies the database that a connection has reached: the same for all addresses of the database, and another one
/// for a copy of it.
package struct DatabaseIdentity: Hashable, Sendable {
    private let text: String

    fileprivate init(_ row: Row) { text = row.text("identity") }
}

extension Statement {
    /// A copy of a server's files has its identifier. A server's start, in microseconds, tells them apart.
    fileprivate static let databaseIdentity = Statement(
        "database_identity",
        """
        select format('%s/%s/%s', c.system_identifier, d.oid, extract(epoch from pg_postmaster_start_time())) as identity
        from pg_control_system() c
        cross join pg_database d
        where d.datname = current_database()
        """)
}

extension PostgresConnection {
    package func databaseIdentity() async throws(PostgresError) -> DatabaseIdentity {
        DatabaseIdentity(try await execute(.databaseIdentity).one())
    }
}
