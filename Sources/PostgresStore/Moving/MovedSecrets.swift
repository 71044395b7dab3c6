import Cryptography

// The secrets of a tenant that moves. A secret is sealed for the row that holds it, which has another number at the new
// place.
extension Statement {
    /// The sealed secrets of a tenant: those of its credentials, and those of its webhook, which have no name.
    fileprivate static let secretsOfTenant = Statement(
        "secrets_of_tenant",
        #"""
        select c.tenant_id, c.id, c.name, c.sealed
        from pushq.credential c
        join pushq.tenant t on t.id = c.tenant_id
        where t.name = $tenant
        union all
        select w.tenant_id, null, null, s.sealed
        from pushq.webhook w
        join pushq.tenant t on t.id = w.tenant_id
        cross join unnest(array[w.sealed, w.former_sealed]) s(sealed)
        where t.name = $tenant and s.sealed is not null
        """#)

    /// The credentials that have arrived, with the numbers for which they are sealed.
    fileprivate static let credentialsOfMove = Statement(
        "credentials_of_move",
        #"""
        select k.value::int as id, k.key::int as old_id, c.tenant_id, t.key::int as old_tenant_id, c.name, c.sealed
        from pushq.tenant_move m
        cross join jsonb_each_text(m.ids -> 'tenant') t
        cross join jsonb_each_text(m.ids -> 'credential') k
        join pushq.credential c on c.id = k.value::int
        where m.tenant = $tenant and not m.leaves
        """#)

    /// The webhook that has arrived, with the number of the tenant for which its secrets are sealed. No row if the
    /// tenant has none.
    fileprivate static let webhookOfMove = Statement(
        "webhook_of_move",
        #"""
        select w.tenant_id, t.key::int as old_tenant_id, w.sealed, w.former_sealed
        from pushq.tenant_move m
        cross join jsonb_each_text(m.ids -> 'tenant') t
        join pushq.webhook w on w.tenant_id = t.value::int
        where m.tenant = $tenant and not m.leaves
        """#)

    /// Replaces the sealed secret of a credential.
    fileprivate static let reownCredential = Statement(
        "reown_credential", "update pushq.credential set sealed = $sealed where tenant_id = $tenant_id and id = $id")

    /// Replaces the sealed secrets of a webhook.
    fileprivate static let reownWebhook = Statement(
        "reown_webhook",
        "update pushq.webhook set sealed = $sealed, former_sealed = $former_sealed where tenant_id = $tenant_id")
}

extension PostgresConnection {
    /// Returns the sealed secrets of a tenant, with their names.
    func sealedSecrets(of tenant: String) async throws(PostgresError)
        -> [(owner: SecretOwner, name: String, sealed: [UInt8])]
    {
        try await execute(.secretsOfTenant, ["tenant": .text(tenant)]).map { row in
            let tenantID = row.int4("tenant_id")
            let owner: SecretOwner =
                row.optionalInt4("id").map { .credential(tenantID: tenantID, credentialID: $0) }
                ?? .webhook(tenantID: tenantID)
            return (
                owner, row.optionalText("name").map { "credential \($0)" } ?? "the webhook's secret",
                row.bytes("sealed")
            )
        }
    }

    /// Seals the secrets that have arrived again, for their new rows.
    func reownSecrets(ofMove tenant: String, under keys: MasterKeys) async throws {
        func sealAnew(
            _ sealed: [UInt8], _ name: String, of old: SecretOwner, for new: SecretOwner
        ) throws -> [UInt8] {
            var opened: [UInt8]
            do throws(SealError) {
                opened = try keys.open(sealed, of: old)
            } catch {
                throw TenantMoveError.sealed(name, error)
            }
            defer { SecretBytes.wipe(&opened) }
            return try keys.seal(opened, for: new)
        }
        for row in try await execute(.credentialsOfMove, ["tenant": .text(tenant)]) {
            let old = CredentialID(tenantID: row.int4("old_tenant_id"), id: row.int4("old_id"))
            let new = CredentialID(tenantID: row.int4("tenant_id"), id: row.int4("id"))
            let sealed = try sealAnew(
                row.bytes("sealed"), "credential \(row.text("name"))", of: old.secretOwner, for: new.secretOwner)
            _ = try await execute(
                .reownCredential,
                ["sealed": .bytea(sealed), "tenant_id": .int4(new.tenantID), "id": .int4(new.id)])
        }
        for row in try await execute(.webhookOfMove, ["tenant": .text(tenant)]) {
            let tenantID = row.int4("tenant_id")
            let owners: (SecretOwner, SecretOwner) = (
                .webhook(tenantID: row.int4("old_tenant_id")), .webhook(tenantID: tenantID)
            )
            let sealAnew = { try sealAnew($0, "the webhook's secret", of: owners.0, for: owners.1) }
            let sealed = try sealAnew(row.bytes("sealed"))
            let former = try row.optionalBytes("former_sealed").map(sealAnew)
            _ = try await execute(
                .reownWebhook,
                ["sealed": .bytea(sealed), "former_sealed": .bytea(former), "tenant_id": .int4(tenantID)])
        }
    }
}
