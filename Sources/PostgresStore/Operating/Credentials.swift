package import FoundationEssentials
package import QueueCore

extension Statement {
    /// A credential's id before its row is there, since its secret is sealed for that row. $1 tenant.
    static let newCredentialID = Statement(
        "new_credential_id",
        #"""
        select t.id, nextval(pg_get_serial_sequence('pushq.credential', 'id'))::int,
               exists (select from pushq.credential c where c.tenant_id = t.id and c.name = $2)
        from pushq.tenant t where t.name = $1
        """#)

    /// $1 tenant_id; $2 id; $3 name; $4 kind; $5 team; $6 key; $7 topics; $8 environments; $9 fingerprint; $10 not_after; $11 sealed.
    static let addCredential = Statement(
        "add_credential",
        #"""
        insert into pushq.credential
          (tenant_id, id, name, kind, team_id, key_id, topics, environments, fingerprint, not_after, sealed)
        overriding system value
        values ($1, $2, $3, $4, $5, $6, $7::text[], $8::text[], $9, $10, $11)
        on conflict on constraint credential_name_once do nothing
        returning id
        """#)

    /// The same row with another secret: its version grows, and queues that a worker paused because of the old one go on.
    /// Parameters as `add_credential`, without the third.
    static let replaceCredential = Statement(
        "replace_credential",
        #"""
        with replaced as (
          update pushq.credential
          set kind = $3, team_id = $4, key_id = $5, topics = $6::text[], environments = $7::text[], fingerprint = $8,
              not_after = $9, sealed = $10, warned_days = null, version = version + 1, replaced_at = now()
          where tenant_id = $1 and id = $2
          returning tenant_id, id),
        resumed as (
          update pushq.queue q
          set paused_at = null, paused_reason = null, paused_credential_version = null, resumed_at = clock_timestamp()
          from replaced r
          where q.tenant_id = r.tenant_id and q.credential_id = r.id and q.paused_credential_version is not null
          returning q.id)
        select (select count(*) from resumed), pushq.wake()::text from replaced
        """#)

    static let credentials = Statement(
        "credentials",
        #"""
        select t.name, c.name, c.kind, c.version, c.team_id, c.key_id, array_to_string(c.topics, ', '),
               array_to_string(c.environments, ', '), c.not_after,
               (select count(*) from pushq.queue q where q.tenant_id = c.tenant_id and q.credential_id = c.id), now()
        from pushq.credential c join pushq.tenant t on t.id = c.tenant_id
        where $1::text is null or t.name = $1
        order by t.name, c.name
        """#)

    /// $1 tenant; $2 name.
    static let sealedCredential = Statement(
        "sealed_credential",
        #"""
        select c.tenant_id, c.id, c.kind, c.team_id, c.key_id, c.sealed, c.environments::text[], c.topics::text[], c.not_after
        from pushq.credential c join pushq.tenant t on t.id = c.tenant_id
        where t.name = $1 and c.name = $2
        """#)

    /// $1 tenant; $2 name. Nothing is removed while a queue is sent with it.
    static let removeCredential = Statement(
        "remove_credential",
        #"""
        with c as materialized (
          select c.tenant_id, c.id from pushq.credential c join pushq.tenant t on t.id = c.tenant_id
          where t.name = $1 and c.name = $2),
        used as materialized (
          select count(*) as n from pushq.queue q join c on q.tenant_id = c.tenant_id and q.credential_id = c.id),
        gone as (
          delete from pushq.credential x using c, used
          where x.tenant_id = c.tenant_id and x.id = c.id and used.n = 0 returning x.id)
        select exists (select from gone), used.n from c, used
        """#)
}

/// A credential as it is put into the database: its secret sealed for the row that it goes to.
package struct NewCredential: Sendable {
    /// What is known of it in the clear.
    package enum Kind: Sendable {
        /// A signing key of a team.
        case token(teamID: String, keyID: String)
        /// A provider certificate.
        case certificate(topics: [String], fingerprint: [UInt8], notAfter: Date)
    }

    package let kind: Kind
    package let environments: [String]
    package let sealed: [UInt8]

    /// A credential to be stored.
    package init(kind: Kind, environments: [String], sealed: [UInt8]) {
        self.kind = kind
        self.environments = environments
        self.sealed = sealed
    }

    fileprivate var parameters: [Parameter] {
        switch kind {
        case .token(let teamID, let keyID):
            [
                .text("token"), .text(teamID), .text(keyID), .textArray([]), .textArray(environments),
                .bytea(nil), .timestamptz(nil), .bytea(sealed),
            ]
        case .certificate(let topics, let fingerprint, let notAfter):
            [
                .text("certificate"), .text(nil), .text(nil), .textArray(topics), .textArray(environments),
                .bytea(fingerprint), .time(notAfter), .bytea(sealed),
            ]
        }
    }
}

/// Which row a credential has or is going to have.
package struct CredentialID: Sendable {
    package let tenantID: Int32
    package let id: Int32

    /// What its secret is sealed for.
    package var secretOwner: SecretOwner { .credential(tenantID: tenantID, credentialID: id) }
}

/// A credential as it lies in the database.
package struct SealedCredential: Sendable {
    package let id: CredentialID
    package let teamID: String?
    package let keyID: String?
    package let sealed: [UInt8]
    /// What it may be used for, as far as it is kept in the clear.
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
    /// Those of a certificate, with commas between; empty: whatever the team owns.
    package let topics: String
    package let environments: String
    package let notAfter: Date?
    package let queueCount: Int
    /// How near its end is; nil for a signing key, which has none.
    package let expiry: CredentialExpiry?
}

extension PostgresConnection {
    /// The id of a credential to be added: nil without such a tenant, and `isTaken` if the tenant has one of that name.
    package func newCredentialID(
        _ name: String, of tenant: String
    ) async throws(PostgresError) -> (id: CredentialID, isTaken: Bool)? {
        try await execute(.newCredentialID, [.text(tenant), .text(name)]).first.map { row in
            (CredentialID(tenantID: row.int4(0), id: row.int4(1)), row.bool(2))
        }
    }

    /// Adds a credential under an id from ``newCredentialID(_:of:)``. False if its name was taken meanwhile.
    package func addCredential(
        _ credential: NewCredential, name: String, as id: CredentialID
    ) async throws(PostgresError) -> Bool {
        let parameters: [Parameter] = [.int4(id.tenantID), .int4(id.id), .text(name)] + credential.parameters
        return try await execute(.addCredential, parameters).count > 0
    }

    /// Puts another secret into a credential's row. Returns how many queues go on that a worker had paused because of it.
    package func replaceCredential(_ id: CredentialID, by credential: NewCredential) async throws(PostgresError) -> Int
    {
        let rows = try await execute(.replaceCredential, [.int4(id.tenantID), .int4(id.id)] + credential.parameters)
        return rows.first.map { Int($0.int8(0)) } ?? 0
    }

    /// The credentials of one tenant, or of all.
    package func credentials(of tenant: String?) async throws(PostgresError) -> [CredentialSummary] {
        try await execute(.credentials, [.text(tenant)]).map(CredentialSummary.init)
    }

    /// A credential with its sealed secret; nil without such a one.
    package func sealedCredential(_ name: String, of tenant: String) async throws(PostgresError) -> SealedCredential? {
        try await execute(.sealedCredential, [.text(tenant), .text(name)]).first.map(SealedCredential.init)
    }

    /// Removes a credential unless queues are sent with it. Nil without such a one, else how many queues kept it from being
    /// removed.
    package func removeCredential(_ name: String, of tenant: String) async throws(PostgresError) -> Int? {
        try await execute(.removeCredential, [.text(tenant), .text(name)]).first.map { Int($0.int8(1)) }
    }
}

extension SealedCredential {
    fileprivate init(_ row: Row) {
        let (environments, topics) = (row.textArray(6).compactMap(Environment.init(rawValue:)), row.textArray(7))
        self.init(
            id: CredentialID(tenantID: row.int4(0), id: row.int4(1)), teamID: row.optionalText(3),
            keyID: row.optionalText(4), sealed: row.bytes(5),
            scope: CredentialScope(
                kind: row.text(2) == "token" ? .token : .certificate,
                environments: .init(environments, field: "environments of credential list"),
                topics: row.text(2) == "token" ? nil : .init(topics, field: "topics of credential list"),
                notAfter: row.optionalTime(8)))
    }
}

extension CredentialSummary {
    fileprivate init(_ row: Row) {
        self.init(
            tenant: row.text(0), name: row.text(1), kind: row.text(2), version: Int(row.int4(3)),
            teamID: row.optionalText(4), keyID: row.optionalText(5), topics: row.text(6), environments: row.text(7),
            notAfter: row.optionalTime(8), queueCount: Int(row.int8(9)),
            expiry: row.optionalTime(8).map { CredentialExpiry(notAfter: $0, now: row.time(10)) })
    }
}
