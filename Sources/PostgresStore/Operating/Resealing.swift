import Cryptography

extension Statement {
    /// Secrets in the order of their kinds and rows, a page at a time: those that are not sealed under `$name`.
    fileprivate static let foreignSecrets = Statement(
        "foreign_secrets",
        #"""
        (select 'credential' as kind, c.tenant_id, c.id, t.name || '/' || c.name as name, '\x'::bytea as signer,
                c.sealed
         from pushq.credential c
         join pushq.tenant t on t.id = c.tenant_id
         where substring(c.sealed from 1 for 8) <> $name and c.id > $after_credential::int
         order by c.id
         limit $step)
        union all
        (select 'token', 0, 0, '', t.signer, t.sealed
         from pushq.provider_token t
         where substring(t.sealed from 1 for 8) <> $name and t.signer > $after_signer
         order by t.signer
         limit $step)
        """#)

    /// Only if it was not replaced meanwhile. Its version stays: what workers have opened of it is as good as before.
    fileprivate static let resealCredential = Statement(
        "reseal_credential",
        #"""
        update pushq.credential
        set sealed = $new
        where tenant_id = $tenant_id and id = $id and sealed = $old
        returning id
        """#
    )
    fileprivate static let resealToken = Statement(
        "reseal_token",
        "update pushq.provider_token set sealed = $new where signer = $signer and sealed = $old returning signer")

    fileprivate static let secretsByKey = Statement(
        "secrets_by_key",
        #"""
        select substring(sealed from 1 for 8) as name, count(*) filter (where kind = 'credential') as credentials,
               count(*) filter (where kind = 'token') as tokens
        from (
          select 'credential' as kind, sealed from pushq.credential
          union all
          select 'token', sealed from pushq.provider_token) s
        group by 1
        order by 1
        """#)
}

/// How many secrets are sealed under a master key.
package struct SealedCount: Equatable, Sendable {
    package let name: MasterKeyName
    package let credentials: Int
    package let tokens: Int
}

/// What came of sealing secrets anew.
package struct Resealing: Equatable, Sendable {
    package var credentials = 0
    package var tokens = 0
    /// Secrets that do not open, and why.
    package var failures: [String] = []

    package init() {}
}

extension PostgresConnection {
    /// How many credentials and provider tokens are sealed under which key.
    package func secretsByKey() async throws(PostgresError) -> [SealedCount] {
        try await execute(.secretsByKey).compactMap { row in
            MasterKeyName(stored: row.bytes("name")).map {
                SealedCount(name: $0, credentials: row.count("credentials"), tokens: row.count("tokens"))
            }
        }
    }

    /// Seals everything under the first of `keys` that another of them has sealed, row by row, while workers run. What
    /// was done stays done if it is interrupted, and doing it again does the rest.
    package func reseal(
        under keys: MasterKeys, step: Int = 100, progress: (Resealing) -> Void = { _ in }
    ) async throws -> Resealing {
        var result = Resealing()
        var (lastCredential, lastSigner): (Int32, [UInt8]) = (0, [])
        while true {
            let page = try await execute(
                .foreignSecrets,
                [
                    "name": .bytea(keys.first.name.bytes), "after_credential": .int4(lastCredential),
                    "after_signer": .bytea(lastSigner), "step": .int8(Int64(step)),
                ]
            ).map(ForeignSecret.init)
            guard !page.isEmpty else { return result }
            for secret in page {
                switch secret {
                case .credential(let id, _, _): lastCredential = id.id
                case .token(let signer, _): lastSigner = signer
                }
                try await reseal(secret, under: keys, noting: &result)
                progress(result)
            }
        }
    }

    private func reseal(_ secret: ForeignSecret, under keys: MasterKeys, noting result: inout Resealing) async throws {
        var opened: [UInt8]
        do throws(SealError) {
            opened = try keys.open(secret.sealed, of: secret.owner)
        } catch {
            result.failures.append("\(secret): \(error)")
            return
        }
        defer { SecretBytes.wipe(&opened) }
        let (new, old) = (Parameter.bytea(try keys.seal(opened, for: secret.owner)), Parameter.bytea(secret.sealed))
        switch secret {
        case .credential(let id, _, _):
            result.credentials += try await execute(.resealCredential, id.parameters + ["new": new, "old": old]).count
        case .token(let signer, _):
            result.tokens +=
                try await execute(.resealToken, ["signer": .bytea(signer), "new": new, "old": old]).count
        }
    }
}

/// A secret that is sealed under another key than the first.
private enum ForeignSecret: CustomStringConvertible {
    case credential(CredentialID, name: String, sealed: [UInt8])
    case token(signer: [UInt8], sealed: [UInt8])

    init(_ row: Row) {
        let sealed = row.bytes("sealed")
        self =
            row.text("kind") == "credential"
            ? .credential(
                CredentialID(tenantID: row.int4("tenant_id"), id: row.int4("id")), name: row.text("name"),
                sealed: sealed)
            : .token(signer: row.bytes("signer"), sealed: sealed)
    }

    var sealed: [UInt8] {
        switch self {
        case .credential(_, _, let sealed), .token(_, let sealed): sealed
        }
    }

    var owner: SecretOwner {
        switch self {
        case .credential(let id, _, _): id.secretOwner
        case .token(let signer, _): .providerToken(signer: signer)
        }
    }

    var description: String {
        switch self {
        case .credential(_, let name, _): "credential \(name)"
        case .token: "a provider token"
        }
    }
}
