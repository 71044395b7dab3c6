import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `Granting a tenant to a login` {
    /// A script that sets up a customer's tenants does this.
    @Test func `goes well for several tenants at once, since a login is made a producer but once`() async throws {
        try await withDatabase { actor, database in
            let admin = try await database.connect()
            let login = "agency_\(database.name)"
            try await admin.runScript(
                """
                create role \(login) login;
                insert into pushq.tenant (name) select 'tenant' || n from generate_series(1, 8) n;
                """)
            var connections: [PostgresConnection] = []
            for _ in 1...8 { connections.append(try await database.connect()) }
            var outcomes: [String] = []
            for (number, connection) in connections.enumerated() {
                actor.loop.startTask {
                    do {
                        try await connection.grantTenant("tenant\(number + 1)", to: login, isReadOnly: false)
                        outcomes.append("granted")
                    } catch {
                        outcomes.append("\(error)")
                    }
                }
            }
            try await eventually("eight answers", { outcomes.count }, until: { $0 == 8 })
            #expect(outcomes == Array(repeating: "granted", count: 8))
            #expect(try await admin.tenantLogins(of: nil).count == 8)
            try await admin.runScript("drop owned by \(login); drop role \(login)")
        }
    }

    @Test func `is refused to a role that would have none of the rights, and to pushq's own`() async throws {
        try await withDatabase { _, database in
            let admin = try await database.connect()
            let login = "heir_\(database.name)"
            _ = try await admin.createTenant("acme")
            try await admin.runScript("create role \(login) login noinherit")
            await #expect(throws: TenantGrantError.doesNotInherit) {
                try await admin.grantTenant("acme", to: login, isReadOnly: false)
            }
            await #expect(throws: WorkerGrantError.doesNotInherit) { try await admin.setWorker(login, isGranted: true) }
            for role in ["pushq_owner", "pushq_worker", "pushq_producer", "pushq_reader"] {
                await #expect(throws: TenantGrantError.isOwnRole) {
                    try await admin.grantTenant("acme", to: role, isReadOnly: true)
                }
            }
            #expect(try await admin.tenantLogins(of: nil).isEmpty)
            try await admin.runScript("alter role \(login) inherit")
            try await admin.grantTenant("acme", to: login, isReadOnly: false)
            let session = try await database.connect(login: login)
            #expect(try await session.execute(Statement("none", "select queue from pushq.my_queues")).isEmpty)
            try await admin.runScript("drop owned by \(login); drop role \(login)")
        }
    }

    /// A worker reads the tokens of all tenants.
    @Test func `is refused to a login of workers, and workers to a tenant's login`() async throws {
        try await withDatabase { _, database in
            let admin = try await database.connect()
            let (worker, producer) = ("worker_\(database.name)", "producer_\(database.name)")
            _ = try await admin.createTenant("acme")
            try await admin.runScript("create role \(worker) login; create role \(producer) login")
            try await admin.setWorker(worker, isGranted: true)
            try await admin.grantTenant("acme", to: producer, isReadOnly: true)
            await #expect(throws: TenantGrantError.isWorker) {
                try await admin.grantTenant("acme", to: worker, isReadOnly: true)
            }
            await #expect(throws: WorkerGrantError.actsFor(tenant: "acme")) {
                try await admin.setWorker(producer, isGranted: true)
            }
            // Once one right is revoked, the other can be granted.
            #expect(try await admin.revokeTenant("acme", from: producer))
            try await admin.setWorker(producer, isGranted: true)
            try await admin.setWorker(worker, isGranted: false)
            try await admin.grantTenant("acme", to: worker, isReadOnly: true)
            for login in [worker, producer] { try await admin.runScript("drop owned by \(login); drop role \(login)") }
        }
    }

    /// A new role does not inherit the grants of a dropped role with the same name.
    @Test func `is refused to a namesake of the role that other tenants were granted to, until they are revoked`()
        async throws
    {
        try await withDatabase { _, database in
            let admin = try await database.connect()
            let login = "alice_\(database.name)"
            for tenant in ["acme", "beta"] {
                _ = try await admin.createTenant(tenant)
                _ = try await admin.createApp("com.\(tenant)", of: tenant)
                _ = try await admin.createQueue(.init(tenant: tenant, app: "com.\(tenant)", environment: .sandbox))
            }
            try await admin.runScript("create role \(login) login")
            try await admin.grantTenant("acme", to: login, isReadOnly: true)
            #expect(try await HealthCheck.tenantLogins.findings(in: admin) == [])
            try await admin.runScript("drop role \(login)")
            let missing = try await HealthCheck.tenantLogins.findings(in: admin)
            #expect(missing.map(\.subject) == ["login \(login)"])

            try await admin.runScript("create role \(login) login")
            #expect(try await HealthCheck.tenantLogins.findings(in: admin).count == 1)
            await #expect(throws: TenantGrantError.hadNamesake(tenants: ["acme"])) {
                try await admin.grantTenant("beta", to: login, isReadOnly: false)
            }
            #expect(try await admin.tenantLogins(of: "beta").isEmpty)
            #expect(try await admin.revokeTenant("acme", from: login))
            try await admin.grantTenant("beta", to: login, isReadOnly: false)
            let session = try await database.connect(login: login)
            let queues = try await session.execute(Statement("queues", "select queue from pushq.my_queues"))
            #expect(queues.map { $0.text("queue") } == ["beta/com.beta/sandbox"])
            #expect(try await HealthCheck.tenantLogins.findings(in: admin) == [])

            // The login is created again for the same tenant, as after a restore on another server.
            try await admin.runScript("drop role \(login); create role \(login) login")
            try await admin.grantTenant("beta", to: login, isReadOnly: false)
            try await admin.grantTenant("acme", to: login, isReadOnly: false)
            try await admin.runScript("drop owned by \(login); drop role \(login)")
        }
    }
}
