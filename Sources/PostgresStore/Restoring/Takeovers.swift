package import FoundationEssentials

extension Statement {
    /// The takeovers of the last month since the last restore. The first copy of a database has no `back_to`.
    fileprivate static let takeovers = Statement(
        "takeovers",
        #"""
        select l.found_at, l.back_to
        from pushq.lineage l
        where not l.is_restore and l.back_to is not null
          and l.id > coalesce((select max(r.id) from pushq.lineage r where r.is_restore), 0)
          and l.found_at > now() - interval '30 days'
        order by l.id
        """#)
}

/// A standby that took the place of the primary.
package struct Takeover: Sendable {
    /// When the first worker or command noticed it.
    package let foundAt: Date
    /// The last commit of the old primary that the new one has. It may lack later ones, unless replication was
    /// synchronous.
    package let upTo: Date
}

extension PostgresConnection {
    /// Returns the takeovers by standbys in the last 30 days, in their order. After each of them, other changes may be
    /// lost. A restore ends the list: its decision is about everything before it.
    package func takeovers() async throws(PostgresError) -> [Takeover] {
        try await execute(.takeovers).map { row in
            Takeover(foundAt: row.time("found_at"), upTo: row.time("back_to"))
        }
    }
}
