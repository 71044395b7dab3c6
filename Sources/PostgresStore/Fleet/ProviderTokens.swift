extension Statement {
    static let providerToken = Statement(
        "provider_token",
        #"""
        select sealed, (extract(epoch from now() - issued_at) * 1000000)::bigint, extract(epoch from now())::bigint
        from (select $1::int as id) c
        left join pushq.provider_token t on t.credential_id = c.id and t.version = $2
        """#)

    /// Puts a new token in the place of one that is old enough, or of another version of the credential. $5: the age that the
    /// present one must have; whoever loses the race reads the winner's.
    static let replaceProviderToken = Statement(
        "replace_provider_token",
        #"""
        insert into pushq.provider_token as t (credential_id, version, sealed, issued_at)
        values ($1, $2, $3, to_timestamp($4))
        on conflict (credential_id) do update
          set version = excluded.version, sealed = excluded.sealed, issued_at = excluded.issued_at
          where t.version < excluded.version or t.version = excluded.version and t.issued_at <= now() - $5::interval
        returning credential_id
        """#)
}

/// The provider token that the fleet shares, as it is stored.
package struct StoredProviderToken: Sendable {
    /// Sealed under the master key.
    package let sealed: [UInt8]
    /// Since it was issued, on the database's clock.
    package let age: Duration
}

extension PostgresConnection {
    /// The current token of a credential's version, and the database's time in seconds since 1970 to issue a new one by.
    package func providerToken(
        credentialID: Int32, version: Int32
    ) async throws(PostgresError) -> (token: StoredProviderToken?, now: Int64) {
        let rows = try await execute(.providerToken, [.int4(credentialID), .int4(version)])
        guard let row = rows.first else { return (nil, 0) }
        let token = row.optionalBytes(0).map { StoredProviderToken(sealed: $0, age: .microseconds(row.int8(1))) }
        return (token, row.int8(2))
    }

    /// Stores a token issued at `issuedAt` (seconds since 1970) unless the present one is younger than `age`. Returns whether it
    /// did; if not, another worker was first.
    package func replaceProviderToken(
        credentialID: Int32, version: Int32, sealed: [UInt8], issuedAt: Int64, ifOlderThan age: Duration
    ) async throws(PostgresError) -> Bool {
        let rows = try await execute(
            .replaceProviderToken,
            [.int4(credentialID), .int4(version), .bytea(sealed), .int8(issuedAt), .interval(age)])
        return rows.count > 0
    }
}
