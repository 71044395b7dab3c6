package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Draws a credential's id before its row exists, because its secret is sealed for that row.
    static let newCredentialID = Statement(
        "new_credential_id",
        #"""
        select t.id as tenant_id, nextval(pg_get_serial_sequence('pushq.credential', 'id'))::int as id,
               exists (select from pushq.credential c where c.tenant_id = t.id and c.name = $name) as is_taken
        from pushq.tenant t where t.name = $tenant
        """#)

    static let addCredential = Statement(
        "add_credential",
        #"""
        insert into pushq.credential
          (tenant_id, id, name, kind, team_id, key_id, topics, environments, fingerprint, not_after, sealed)
        overriding system value
        values
          ($tenant_id, $id, $name, $kind, $team_id, $key_id, $topics::text[], $environments::text[], $fingerprint,
           $not_after, $sealed)
        on conflict on constraint credential_name_once do nothing
        returning id
        """#)

    /// Replaces the secret in a credential's row. Its version grows, and queues that a worker paused because of the old
    /// secret are resumed.
    static let replaceCredential = Statement(
        "replace_credential",
        #"""
        with replaced as (
          update pushq.credential
          set kind = $kind, team_id = $team_id, key_id = $key_id, topics = $topics::text[],
              environments = $environments::text[], fingerprint = $fingerprint,
              not_after = $not_after, sealed = $sealed, warned_days = null, version = version + 1, replaced_at = now()
          where tenant_id = $tenant_id and id = $id
          returning tenant_id, id)
        select pushq.resume_replaced(r.tenant_id, r.id) as resumed, pushq.wake()::text
        from replaced r
        """#)

    /// Credentials by name, or by their end. Queues are counted only for the rows that are returned.
    static let credentials = Statement(
        "credentials",
        #"""
        with shown as materialized (
          select t.name as tenant, c.*, row_number() over (
                   order by case when $ends_first::boolean then c.not_after end, t.name, c.name) as place
          from pushq.credential c join pushq.tenant t on t.id = c.tenant_id
          where ($tenant::text is null or t.name = $tenant)
            and ($matching::text is null or position(lower($matching) in lower(t.name || '/' || c.name)) > 0)
          order by place
          limit $limit)
        select c.tenant, c.name, c.kind, c.version, c.team_id, c.key_id,
               array_to_string(c.topics, ', ') as topics,
               array_to_string(c.environments, ', ') as environments, c.not_after,
               (select count(*) from pushq.queue q where q.tenant_id = c.tenant_id and q.credential_id = c.id)
                 as queues,
               now() as now
        from shown c
        order by c.place
        """#)

    static let sealedCredential = Statement(
        "sealed_credential",
        #"""
        select c.tenant_id, c.id, c.kind, c.team_id, c.key_id, c.sealed, c.environments::text[], c.topics::text[],
               c.not_after
        from pushq.credential c join pushq.tenant t on t.id = c.tenant_id
        where t.name = $tenant and c.name = $name
        """#)

    /// Removes nothing if a queue uses the credential.
    static let removeCredential = Statement(
        "remove_credential",
        #"""
        with c as materialized (
          select c.tenant_id, c.id from pushq.credential c join pushq.tenant t on t.id = c.tenant_id
          where t.name = $tenant and c.name = $name),
        used as materialized (
          select count(*) as n from pushq.queue q join c on q.tenant_id = c.tenant_id and q.credential_id = c.id),
        gone as (
          delete from pushq.credential x using c, used
          where x.tenant_id = c.tenant_id and x.id = c.id and used.n = 0 returning x.id)
        select used.n as queues from c, used
        """#)
}

/// A credential to be stored, with its secret sealed for its row.
package struct NewCredential: Sendable {
    /// The unencrypted part of the credential.
    package enum Kind: Sendable {
        /// A signing key of a team.
        case token(teamID: String, keyID: String)
        /// A provider certificate.
        case certificate(topics: [String], fingerprint: [UInt8], notAfter: Date)
    }

    package let kind: Kind
    package let environments: [String]
    package let sealed: [UInt8]

    /// Creates a credential to be stored.
    package init(kind: Kind, environments: [String], sealed: [UInt8]) {
        self.kind = kind
        self.environments = environments
        self.sealed = sealed
    }

    fileprivate var parameters: Parameters {
        ["environments": .textArray(environments), "sealed": .bytea(sealed)] + kind.parameters
    }
}

extension NewCredential.Kind {
    fileprivate var parameters: Parameters {
        switch self {
        case .token(let teamID, let keyID):
            [
                "kind": .text("token"), "team_id": .text(teamID), "key_id": .text(keyID), "topics": .textArray([]),
                "fingerprint": .bytea(nil), "not_after": .time(nil),
            ]
        case .certificate(let topics, let fingerprint, let notAfter):
            [
                "kind": .text("certificate"), "team_id": .text(nil), "key_id": .text(nil), "topics": .textArray(topics),
                "fingerprint": .bytea(fingerprint), "not_after": .time(notAfter),
            ]
        }
    }
}

/// The row of a credential, which need not exist yet.
package struct CredentialID: Sendable {
    package let tenantID: Int32
    package let id: Int32

    /// The owner that the secret is sealed for.
    package var secretOwner: SecretOwner { .credential(tenantID: tenantID, credentialID: id) }
}

/// A credential as it is stored.
package struct SealedCredential: Sendable {
    package let id: CredentialID
    package let teamID: String?
    package let keyID: String?
    package let sealed: [UInt8]
    /// What it may be used for, as far as this is stored unencrypted.
    package let scope: CredentialScope
}

/// A credential as an operator sees it.
package struct CredentialSummary: Sendable {
    package let tenant: String
    package let name: String
    /// `token` or `certificate`.
    package let kind: String
    package let version: Int
    package let teamID: String?
    package let keyID: String?
    /// The topics of a certificate, separated by commas; empty: all topics of the team.
    package let topics: String
    package let environments: String
    package let notAfter: Date?
    package let queueCount: Int
    /// How near its end is; nil for a signing key, which does not end.
    package let expiry: CredentialExpiry?
}

extension PostgresConnection {
    /// Draws the id of a credential to be added. Returns nil if there is no such tenant; `isTaken` is true if the
    /// tenant has a credential of that name.
    package func newCredentialID(
        _ name: String, of tenant: String
    ) async throws(PostgresError) -> (id: CredentialID, isTaken: Bool)? {
        try await execute(.newCredentialID, ["tenant": .text(tenant), "name": .text(name)]).first.map { row in
            (CredentialID(row), row.bool("is_taken"))
        }
    }

    /// Adds a credential under an id from ``newCredentialID(_:of:)``, unless its name was taken or its tenant removed
    /// meanwhile. If the tenant was removed, a surrounding transaction has failed.
    package func addCredential(
        _ credential: NewCredential, name: String, as id: CredentialID
    ) async throws(PostgresError) -> CreationResult {
        let parameters = id.parameters + ["name": .text(name)] + credential.parameters
        do throws(PostgresError) {
            return try await execute(.addCredential, parameters).count > 0 ? .created : .exists
        } catch {
            guard error.violates("credential_tenant_exists") else { throw error }
            return .parentMissing
        }
    }

    /// Replaces the secret of a credential. Returns how many queues that a worker had paused because of it are resumed;
    /// nil if the credential was removed.
    package func replaceCredential(
        _ id: CredentialID, by credential: NewCredential
    ) async throws(PostgresError) -> Int? {
        try await execute(.replaceCredential, id.parameters + credential.parameters).first.map { $0.count("resumed") }
    }

    /// Returns the credentials of one tenant or of all tenants, by name.
    /// - Parameter endsFirst: orders them by their end instead. Signing keys, which do not end, come last.
    package func credentials(
        of tenant: String?, _ selection: ListSelection = ListSelection(), endsFirst: Bool = false
    ) async throws(PostgresError) -> [CredentialSummary] {
        let parameters: Parameters = ["tenant": .text(tenant), "ends_first": .bool(endsFirst)]
        return try await execute(.credentials, parameters + selection.parameters).map(CredentialSummary.init)
    }

    /// Returns a credential with its sealed secret; nil if there is none of that name. Throws if the tenant is in
    /// another database or is being moved to one.
    package func sealedCredential(_ name: String, of tenant: String) async throws(PostgresError) -> SealedCredential? {
        let found = try await execute(.sealedCredential, ["tenant": .text(tenant), "name": .text(name)]).first
        if found == nil { try await refuseMoved(tenant) }
        return found.map(SealedCredential.init)
    }

    /// Removes a credential unless queues use it. Returns how many queues prevented the removal; nil if there is no
    /// such credential. Throws if the tenant is in another database or is being moved to one.
    package func removeCredential(_ name: String, of tenant: String) async throws(PostgresError) -> Int? {
        while true {
            do throws(PostgresError) {
                let found = try await execute(
                    .removeCredential, ["tenant": .text(tenant), "name": .text(name)]
                ).first
                if found == nil { try await refuseMoved(tenant) }
                return found?.count("queues")
            } catch {
                // A queue was given the credential meanwhile. The next try counts it.
                guard error.violates("queue_credential_exists") else { throw error }
            }
        }
    }
}

extension CredentialID {
    /// Reads the columns `tenant_id` and `id`.
    fileprivate init(_ row: Row) {
        self.init(tenantID: row.int4("tenant_id"), id: row.int4("id"))
    }

    /// The parameters `$tenant_id` and `$id`.
    var parameters: Parameters { ["tenant_id": .int4(tenantID), "id": .int4(id)] }
}

extension SealedCredential {
    fileprivate init(_ row: Row) {
        let environments = row.textArray("environments").compactMap(Environment.init(rawValue:))
        let isToken = row.text("kind") == "token"
        self.init(
            id: CredentialID(row), teamID: row.optionalText("team_id"), keyID: row.optionalText("key_id"),
            sealed: row.bytes("sealed"),
            scope: CredentialScope(
                kind: isToken ? .token : .certificate,
                environments: .init(environments, field: "environments of credential list"),
                topics: isToken ? nil : .init(row.textArray("topics"), field: "topics of credential list"),
                notAfter: row.optionalTime("not_after")))
    }
}

extension CredentialSummary {
    fileprivate init(_ row: Row) {
        let notAfter = row.optionalTime("not_after")
        self.init(
            tenant: row.text("tenant"), name: row.text("name"), kind: row.text("kind"),
            version: Int(row.int4("version")), teamID: row.optionalText("team_id"), keyID: row.optionalText("key_id"),
            topics: row.text("topics"), environments: row.text("environments"), notAfter: notAfter,
            queueCount: row.count("queues"),
            expiry: notAfter.map { CredentialExpiry(notAfter: $0, now: row.time("now")) })
    }
}
