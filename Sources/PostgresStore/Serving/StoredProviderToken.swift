extension Statement {
    static let providerToken = Statement(
        "provider_token",
        #"""
        select sealed, (extract(epoch from now() - issued_at) * 1000000)::bigint as age,
               coalesce(keep_until > now() and keep_until <= now() + interval '21 minutes', false) as is_kept,
               floor(extract(epoch from now()))::bigint as now  -- rounding up would make a token look younger
        from (select $signer::bytea as signer) s
        left join pushq.provider_token t using (signer)
        """#)

    /// Replaces a token that is old enough by a new one. `$issued_at` is in seconds since 1970; `$age` is the age that
    /// the present token must have. A worker that comes second reads the token of the first.
    ///
    /// A clock that was fast and has been set back may have written a token from the future, or an order to keep a
    /// token for longer than such orders last. The statement replaces the token despite either. It also does so despite
    /// a valid order when APNs is about to call the token expired.
    static let replaceProviderToken = Statement(
        "replace_provider_token",
        #"""
        insert into pushq.provider_token as t (signer, sealed, issued_at)
        values ($signer, $sealed, to_timestamp($issued_at))
        on conflict on constraint provider_token_pkey do update
          set sealed = excluded.sealed, issued_at = excluded.issued_at, keep_until = null
          where t.issued_at > now() + interval '1 minute'
             or t.issued_at <= now() - $age::interval
                and (t.keep_until is null or t.keep_until <= now()
                     or t.keep_until > now() + interval '21 minutes'
                     or t.issued_at <= now() - interval '55 minutes')
        returning signer
        """#)

    static let keepProviderToken = Statement(
        "keep_provider_token",
        "update pushq.provider_token set keep_until = now() + $time::interval where signer = $signer")
}

/// The provider token that the fleet shares, as stored.
package struct StoredProviderToken: Sendable {
    /// The token, sealed with the master key.
    package let sealed: [UInt8]
    /// The time since the token was issued, on the database's clock; negative if that clock was set back meanwhile.
    package let age: Duration
    /// Whether APNs asked less than 20 minutes ago not to replace the token.
    package let isKept: Bool
}

extension PostgresConnection {
    /// Returns the current token of a signer, and the database's time in seconds since 1970, for issuing a new token.
    package func providerToken(
        of signer: [UInt8]
    ) async throws(PostgresError) -> (token: StoredProviderToken?, now: Int64) {
        let row = try await execute(.providerToken, ["signer": .bytea(signer)]).one()
        let token = row.optionalBytes("sealed").map {
            StoredProviderToken(sealed: $0, age: .microseconds(row.int8("age")), isKept: row.bool("is_kept"))
        }
        return (token, row.int8("now"))
    }

    /// Stores a token issued at `issuedAt` (seconds since 1970) unless the present one is younger than `age` or kept.
    /// Replaces a token from the future. Returns whether it did; if not, another worker was first.
    package func replaceProviderToken(
        of signer: [UInt8], sealed: [UInt8], issuedAt: Int64, ifOlderThan age: Duration
    ) async throws(PostgresError) -> Bool {
        try await execute(
            .replaceProviderToken,
            ["signer": .bytea(signer), "sealed": .bytea(sealed), "issued_at": .int8(issuedAt), "age": .interval(age)]
        ).count > 0
    }

    /// Keeps the present token for a time, even past the age at which it would be replaced, but not past the age at
    /// which APNs refuses it.
    package func keepProviderToken(of signer: [UInt8], for time: Duration) async throws(PostgresError) {
        _ = try await execute(.keepProviderToken, ["signer": .bytea(signer), "time": .interval(time)])
    }
}
