package import FoundationEssentials

extension Statement {
    /// The latest takeover since the last restore. The first copy of a database has no `back_to`.
    fileprivate static let lastTakeover = Statement(
        "last_takeover",
        #"""
        select l.found_at, l.back_to
        from pushq.lineage l
        where not l.is_restore and l.back_to is not null
          and l.id > coalesce((select max(r.id) from pushq.lineage r where r.is_restore), 0)
        order by l.id desc
        limit 1
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
    /// Returns the last takeover by a standby; nil if there was none since the database was created or restored.
    package func lastTakeover() async throws(PostgresError) -> Takeover? {
        try await execute(.lastTakeover).first.map { row in
            Takeover(foundAt: row.time("found_at"), upTo: row.time("back_to"))
        }
    }
}
