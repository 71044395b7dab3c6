extension Statement {
    /// $1 signer.
    static let providerToken = Statement(
        "provider_token",
        #"""
        select sealed, (extract(epoch from now() - issued_at) * 1000000)::bigint, coalesce(keep_until > now(), false),
               floor(extract(epoch from now()))::bigint  -- rounded up, a token would be younger than it is
        from (select $1::bytea as signer) s
        left join pushq.provider_token t using (signer)
        """#)

    /// Puts a new token in the place of one that is old enough. $1 signer; $2 sealed; $3 issued_at, seconds since 1970; $4: the
    /// age that the present one must have; whoever loses the race reads the winner's. What no APNs would take any more is
    /// cleared away: its signer is no longer in use.
    static let replaceProviderToken = Statement(
        "replace_provider_token",
        #"""
        with dead as (
          delete from pushq.provider_token where issued_at < now() - interval '2 hours' and signer <> $1)
        insert into pushq.provider_token as t (signer, sealed, issued_at)
        values ($1, $2, to_timestamp($3))
        on conflict on constraint provider_token_pkey do update
          set sealed = excluded.sealed, issued_at = excluded.issued_at, keep_until = null
          where t.issued_at <= now() - $4::interval and (t.keep_until is null or t.keep_until <= now())
        returning signer
        """#)

    /// $1 signer; $2 for how long.
    static let keepProviderToken = Statement(
        "keep_provider_token", "update pushq.provider_token set keep_until = now() + $2::interval where signer = $1")
}

/// The provider token that the fleet shares, as it is stored.
package struct StoredProviderToken: Sendable {
    /// Sealed under the master key.
    package let sealed: [UInt8]
    /// Since it was issued, on the database's clock.
    package let age: Duration
    /// Whether it may not be replaced at present, whatever its age.
    package let isKept: Bool
}

extension PostgresConnection {
    /// The current token of a signer, and the database's time in seconds since 1970 to issue a new one by.
    package func providerToken(
        of signer: [UInt8]
    ) async throws(PostgresError) -> (token: StoredProviderToken?, now: Int64) {
        guard let row = try await execute(.providerToken, [.bytea(signer)]).first else {
            preconditionFailure("a left join from one row gives one row")
        }
        let token = row.optionalBytes(0).map {
            StoredProviderToken(sealed: $0, age: .microseconds(row.int8(1)), isKept: row.bool(2))
        }
        return (token, row.int8(3))
    }

    /// Stores a token issued at `issuedAt` (seconds since 1970) unless the present one is younger than `age` or kept. Returns
    /// whether it did; if not, another worker was first.
    package func replaceProviderToken(
        of signer: [UInt8], sealed: [UInt8], issuedAt: Int64, ifOlderThan age: Duration
    ) async throws(PostgresError) -> Bool {
        try await execute(
            .replaceProviderToken, [.bytea(signer), .bytea(sealed), .int8(issuedAt), .interval(age)]
        ).count > 0
    }

    /// Has the present token kept for a time, also when it comes to the age at which it would be replaced.
    package func keepProviderToken(of signer: [UInt8], for time: Duration) async throws(PostgresError) {
        _ = try await execute(.keepProviderToken, [.bytea(signer), .interval(time)])
    }
}
