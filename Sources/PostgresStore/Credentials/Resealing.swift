import Cryptography

extension Statement {
    /// A page of the secrets that are not sealed under `$name`, in the order of their kinds and rows.
    fileprivate static let foreignSecrets = Statement(
        "foreign_secrets",
        #"""
        (select 'credential' as kind, c.tenant_id, c.id, t.name || '/' || c.name as name, ''::bytea as signer,
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
        union all
        (select 'webhook', w.tenant_id, w.place, t.name, '', w.sealed
         from (
           select tenant_id, tenant_id * 2 as place, sealed from pushq.webhook
           union all
           select tenant_id, tenant_id * 2 + 1, former_sealed from pushq.webhook where former_sealed is not null) w
         join pushq.tenant t on t.id = w.tenant_id
         where substring(w.sealed from 1 for 8) <> $name and w.place > $after_webhook::int
         order by w.place
         limit $step)
        """#)

    /// The same for tenants that are in neither database. These are few, so they are read without pages.
    fileprivate static let foreignDetachedSecrets = Statement(
        "foreign_detached_secrets",
        #"""
        select s.tenant, s.kind, s.tenant_id, coalesce(s.id, 0) as id, concat_ws('/', s.tenant, s.name) as name,
               ''::bytea as signer, s.sealed
        from pushq.detached_secrets() s
        where substring(s.sealed from 1 for 8) <> $name
        """#)

    /// Replaces the secret byte for byte in the text of the settings, which contains it as hexadecimal digits; no other
    /// part is equal to these. `changed_at` stays unchanged, and with it `lineage_id`, which says which restores came
    /// after the tenant was detached.
    fileprivate static let resealDetached = Statement(
        "reseal_detached",
        #"""
        update pushq.tenant_move m
        set settings = replace(m.settings::text, encode($old::bytea, 'hex'), encode($new::bytea, 'hex'))::json
        where m.tenant = $tenant and m.stage = 'detached'
          and position(encode($old::bytea, 'hex') in m.settings::text) > 0
        returning m.tenant
        """#)

    /// Moves that a command carries out at this moment.
    fileprivate static let arrivingTenants = Statement(
        "arriving_tenants",
        #"""
        select m.tenant
        from pushq.tenant_move m
        where not m.leaves and m.stage = 'copying' and pushq.has_mover(m.tenant)
        order by m.tenant
        """#)

    /// Seals only a secret that was not replaced meanwhile. The version stays, because the secret that workers have
    /// opened is still valid.
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

    /// One statement for both secrets: no two secrets have equal sealed bytes.
    fileprivate static let resealWebhook = Statement(
        "reseal_webhook",
        #"""
        update pushq.webhook
        set sealed = case when sealed = $old then $new else sealed end,
            former_sealed = case when former_sealed = $old then $new else former_sealed end
        where tenant_id = $tenant_id and $old in (sealed, former_sealed)
        returning tenant_id
        """#)

    fileprivate static let secretsByKey = Statement(
        "secrets_by_key",
        #"""
        select substring(sealed from 1 for 8) as name, count(*) filter (where kind = 'credential') as credentials,
               count(*) filter (where kind = 'token') as tokens, count(*) filter (where kind = 'webhook') as webhooks
        from (
          select 'credential' as kind, sealed from pushq.credential
          union all
          select 'token', sealed from pushq.provider_token
          union all
          select 'webhook', sealed from pushq.webhook
          union all
          select 'webhook', former_sealed from pushq.webhook where former_sealed is not null
          union all
          select d.kind, d.sealed from pushq.detached_secrets() d) s
        group by 1
        order by 1
        """#)
}

/// The number of secrets that are sealed under a master key.
package struct SealedCount: Equatable, Sendable {
    package let name: MasterKeyName
    package let credentials: Int
    package let tokens: Int
    /// The secrets of webhooks.
    package let webhooks: Int
}

/// The result of sealing secrets again.
package struct Resealing: Equatable, Sendable {
    package var credentials = 0
    package var tokens = 0
    /// The secrets of webhooks.
    package var webhooks = 0
    /// The secrets that could not be opened, and why.
    package var failures: [String] = []

    package init() {}

    /// The secrets of all kinds.
    package var total: Int { credentials + tokens + webhooks }
}

extension PostgresConnection {
    /// Returns how many credentials, provider tokens and webhook secrets are sealed under each key, including those of
    /// tenants that are being moved.
    package func secretsByKey() async throws(PostgresError) -> [SealedCount] {
        try await execute(.secretsByKey).compactMap { row in
            MasterKeyName(stored: row.bytes("name")).map {
                SealedCount(
                    name: $0, credentials: row.count("credentials"), tokens: row.count("tokens"),
                    webhooks: row.count("webhooks"))
            }
        }
    }

    /// Seals every secret that another of the `keys` has sealed under the first one, row by row, while workers run. If
    /// this is interrupted, finished rows stay done, and another run does the rest.
    package func reseal(
        under keys: MasterKeys, step: Int = 100, progress: (Resealing) -> Void = { _ in }
    ) async throws -> Resealing {
        var result = Resealing()
        var (lastCredential, lastSigner, lastWebhook): (Int32, [UInt8], Int32) = (0, [], 0)
        while true {
            let page = try await execute(
                .foreignSecrets,
                [
                    "name": .bytea(keys.first.name.bytes), "after_credential": .int4(lastCredential),
                    "after_signer": .bytea(lastSigner), "after_webhook": .int4(lastWebhook), "step": .int8(Int64(step)),
                ]
            ).map(ForeignSecret.init)
            guard !page.isEmpty else { break }
            for secret in page {
                switch secret {
                case .credential(let id, _, _): lastCredential = id.id
                case .token(let signer, _): lastSigner = signer
                case .webhook(_, let place, _, _): lastWebhook = place
                }
                try await reseal(secret, under: keys, noting: &result)
                progress(result)
            }
        }
        let detached = try await execute(.foreignDetachedSecrets, ["name": .bytea(keys.first.name.bytes)])
        for row in detached {
            try await reseal(ForeignSecret(row), detachedWith: row.text("tenant"), under: keys, noting: &result)
            progress(result)
        }
        return result
    }

    /// Returns the tenants that commands move here at this moment. These commands seal secrets under the first key that
    /// they were given when they began.
    package func arrivingTenants() async throws(PostgresError) -> [String] {
        try await execute(.arrivingTenants).map { $0.text("tenant") }
    }

    /// - Parameter tenant: the tenant whose stored settings contain the secret, if no table contains it.
    private func reseal(
        _ secret: ForeignSecret, detachedWith tenant: String? = nil, under keys: MasterKeys,
        noting result: inout Resealing
    ) async throws {
        var opened: [UInt8]
        do throws(SealError) {
            opened = try keys.open(secret.sealed, of: secret.owner)
        } catch {
            result.failures.append("\(secret): \(error)")
            return
        }
        defer { SecretBytes.wipe(&opened) }
        let (new, old) = (Parameter.bytea(try keys.seal(opened, for: secret.owner)), Parameter.bytea(secret.sealed))
        let (statement, row): (Statement, Parameters) =
            switch secret {
            case _ where tenant != nil: (.resealDetached, ["tenant": .text(tenant)])
            case .credential(let id, _, _): (.resealCredential, id.parameters)
            case .token(let signer, _): (.resealToken, ["signer": .bytea(signer)])
            case .webhook(let tenantID, _, _, _): (.resealWebhook, ["tenant_id": .int4(tenantID)])
            }
        let count = try await execute(statement, row + ["new": new, "old": old]).count
        switch secret {
        case .credential: result.credentials += count
        case .token: result.tokens += count
        case .webhook: result.webhooks += count
        }
    }
}

/// A secret that is not sealed under the first key.
private enum ForeignSecret: CustomStringConvertible {
    case credential(CredentialID, name: String, sealed: [UInt8])
    case token(signer: [UInt8], sealed: [UInt8])
    /// `place`: its number in the order of reading.
    case webhook(tenantID: Int32, place: Int32, name: String, sealed: [UInt8])

    init(_ row: Row) {
        let sealed = row.bytes("sealed")
        switch row.text("kind") {
        case "credential":
            let id = CredentialID(tenantID: row.int4("tenant_id"), id: row.int4("id"))
            self = .credential(id, name: row.text("name"), sealed: sealed)
        case "webhook":
            self = .webhook(
                tenantID: row.int4("tenant_id"), place: row.int4("id"), name: row.text("name"), sealed: sealed)
        default: self = .token(signer: row.bytes("signer"), sealed: sealed)
        }
    }

    var sealed: [UInt8] {
        switch self {
        case .credential(_, _, let sealed), .token(_, let sealed), .webhook(_, _, _, let sealed): sealed
        }
    }

    var owner: SecretOwner {
        switch self {
        case .credential(let id, _, _): id.secretOwner
        case .token(let signer, _): .providerToken(signer: signer)
        case .webhook(let tenantID, _, _, _): .webhook(tenantID: tenantID)
        }
    }

    var description: String {
        switch self {
        case .credential(_, let name, _): "credential \(name)"
        case .token: "a provider token"
        case .webhook(_, _, let name, _): "the webhook of \(name)"
        }
    }
}
