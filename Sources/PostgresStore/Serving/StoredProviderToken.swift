extension Statement {
    static let providerToken = Statement(
        "provider_token",
        #"""
        select sealed, (extract(epoch from now() - issued_at) * 1000000)::bigint as age,
               coalesce(keep_until > now() and keep_until <= now() + interval '21 minutes', false) as is_kept,
               floor(extract(epoch from now()))::bigint as now  -- rounded up, a token would be younger than it is
        from (select $signer::bytea as signer) s
        left join pushq.provider_token t using (signer)
        """#)

    /// Puts a new token in the place of one that is old enough. `$issued_at` is in seconds since 1970, `$age` is what
    /// the present one must have. A worker that comes second reads the other's.
    ///
    /// What a clock has written that was fast, and was set back since, binds nobody: neither a token of the future, nor
    /// an order to keep one for longer than such orders last. Nor is a token kept until APNs calls it expired.
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

/// The provider token that the fleet shares, as it is stored.
package struct StoredProviderToken: Sendable {
    /// Sealed under the master key.
    package let sealed: [UInt8]
    /// Since it was issued, on the database's clock; negative if that was set back meanwhile.
    package let age: Duration
    /// Whether APNs has asked, less than 20 minutes ago, that it is not replaced.
    package let isKept: Bool
}

extension PostgresConnection {
    /// The current token of a signer, and the database's time in seconds since 1970 to issue a new one by.
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
    /// One of the future is replaced. Returns whether it did; if not, another worker was first.
    package func replaceProviderToken(
        of signer: [UInt8], sealed: [UInt8], issuedAt: Int64, ifOlderThan age: Duration
    ) async throws(PostgresError) -> Bool {
        try await execute(
            .replaceProviderToken,
            ["signer": .bytea(signer), "sealed": .bytea(sealed), "issued_at": .int8(issuedAt), "age": .interval(age)]
        ).count > 0
    }

    /// Has the present token kept for a time, also when it comes to the age at which it would be replaced, but not to
    /// the one at which APNs refuses it.
    package func keepProviderToken(of signer: [UInt8], for time: Duration) async throws(PostgresError) {
        _ = try await execute(.keepProviderToken, ["signer": .bytea(signer), "time": .interval(time)])
    }
}
