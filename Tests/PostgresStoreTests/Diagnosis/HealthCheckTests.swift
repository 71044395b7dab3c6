import Foundation
import LocalStack
import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite(.timeLimit(.minutes(10))) struct `A check of an installation` {
    @Test(arguments: Fault.all)
    func `finds nothing before a fault, and then the fault, with a remedy that works`(fault: Fault) async throws {
        try await withDatabase { _, database in
            let operating = try await database.connect()
            try await operating.runScript(Fault.healthy)
            try await operating.runScript("analyze")
            let fault = fault.inDatabase(database.name)
            #expect(try await fault.findings(in: operating) == [])

            try await operating.runScript(fault.sql)
            try await operating.runScript("select pg_stat_force_next_flush()")
            // The settings of a database apply only to later connections.
            let looking = try await database.connect()
            let findings = try await eventually("it is found", within: .seconds(30)) {
                try await fault.findings(in: looking)
            } until: {
                !$0.isEmpty
            }
            let finding = try #require(findings.first)
            #expect(findings.count == 1 && finding.severity == fault.severity)
            #expect(finding.evidence.contains(fault.evidence), "\(finding.evidence)")
            #expect(finding.remedy == fault.remedy)

            guard case .sql(let remedy, _) = finding.remedy else { return }
            for statement in remedy.prefix(while: { $0 != "-" || !remedy.contains(" -- ") }).split(separator: "; ") {
                try await looking.runScript(String(statement))
            }
            let mended = try await database.connect()
            try await eventually("it is mended", within: .seconds(30)) { try await fault.findings(in: mended).isEmpty }
        }
    }

    @Test(arguments: [20, 25])
    func `shows twenty findings, the newest webhooks first, and says if there are more`(count: Int) async throws {
        try await withDatabase { _, database in
            let looking = try await database.connect()
            try await looking.runScript(
                """
                insert into pushq.tenant (name) select 't' || i from generate_series(1, \(count)) i;
                insert into pushq.webhook (tenant_id, url, sealed) select id, 'https://a.example/', 'x' from pushq.tenant;
                insert into pushq.webhook_progress (tenant_id, cursor, newest, failures, failing_since, problem)
                select id, 1, 2, 7, now() - replace(name, 't', '')::int * interval '1 hour', 'it answered 503'
                from pushq.tenant
                """)
            let subjects = try await HealthCheck.webhooks.findings(in: looking).map(\.subject)
            #expect(subjects.prefix(20) == (1...20).map { "webhook of t\($0)" }[...])
            #expect(subjects.dropFirst(20) == (count > 20 ? ["check webhooks"] : []))
        }
    }

    @Test func `finds a database whose texts were sorted by other rules than the server's, until it is indexed anew`()
        async throws
    {
        try await withEmptyDatabase("locale_provider icu icu_locale 'en-US'") { _, database in
            let looking = try await database.connect()
            _ = try await Migrator(looking).run()
            let check = HealthCheck.collation
            #expect(try await check.findings(in: looking) == [])
            try await looking.runScript(
                "update pg_database set datcollversion = '1.0' where datname = '\(database.name)'")
            let findings = try await check.findings(in: looking)
            #expect(findings.map(\.severity) == [.error] && findings.map(\.subject) == ["database \(database.name)"])
            let remedy = try #require(findings.first?.remedy.text)
            // Each line alone, as with `psql -c`.
            for line in remedy.split(separator: "\n") { try await looking.runScript(String(line)) }
            #expect(try await check.findings(in: looking) == [])
        }
    }

    @Test func `finds a transaction that is open for long, and who holds it, but not its statement`() async throws {
        try await withDatabase { _, database in
            let (holder, looking) = (try await database.connect(as: "report.py"), try await database.connect())
            let check = HealthCheck.transactions(olderThan: .milliseconds(200))
            #expect(try await check.findings(in: looking) == [])
            try await holder.runScript("begin")
            try await holder.runScript("select 'a secret'")
            let findings = try await eventually("it is old", within: .seconds(30)) {
                try await check.findings(in: looking)
            } until: {
                !$0.isEmpty
            }
            let finding = try #require(findings.first)
            #expect(finding.evidence.contains("\(TestServer.superuser), report.py, idle in transaction"))
            #expect(!"\(finding)".contains("secret"))
            try #require(finding.remedy.kind == "sql")
            try await looking.runScript(finding.remedy.text)
            try await eventually("it is gone", within: .seconds(30)) { try await check.findings(in: looking).isEmpty }
        }
    }

    /// A report has read a table and keeps its transaction open, somebody wants to rebuild the table, and a worker has
    /// to wait behind that.
    @Test func `finds who holds what others wait for, at the end of the row`() async throws {
        try await withDatabase { actor, database in
            let (holder, looking) = (try await database.connect(as: "report.py"), try await database.connect())
            let check = HealthCheck.locks(awaitedFor: .milliseconds(100))
            try await holder.runScript("begin; select from pushq.device")
            #expect(try await check.findings(in: looking) == [])
            let (changing, claiming) = (try await database.connect(), try await database.connect())
            let changed = Task {
                _ = actor
                try await changing.runScript("begin; lock table pushq.device in access exclusive mode; rollback")
            }
            try await eventually("it waits", within: .seconds(30)) {
                try await check.findings(in: looking).first?.evidence.hasPrefix("1 session waits") == true
            }
            let read = Task {
                _ = actor
                try await claiming.runScript("select from pushq.device")
            }
            let findings = try await eventually("both wait", within: .seconds(30)) {
                try await check.findings(in: looking)
            } until: {
                $0.first?.evidence.hasPrefix("2 sessions wait") == true
            }
            #expect(findings.map(\.subject) == ["session \(holder.backendProcessID)"])
            let finding = try #require(findings.first)
            #expect(
                finding.evidence.contains(
                    "to use pushq.device, first session \(changing.backendProcessID) to change the table"),
                "\(finding.evidence)")
            #expect(finding.evidence.contains("report.py, idle in transaction"), "\(finding.evidence)")
            try await looking.runScript(finding.remedy.text)
            _ = await (changed.result, read.result)
            try await eventually("it is gone", within: .seconds(30)) { try await check.findings(in: looking).isEmpty }

            // Nobody waits at this moment.
            try await changing.runScript("begin; lock table pushq.job in access exclusive mode")
            let alone = try await eventually("it is found", within: .seconds(30)) {
                try await check.findings(in: looking)
            } until: {
                !$0.isEmpty
            }
            #expect(alone.first?.evidence.hasPrefix("nobody else can use pushq.job, in its transaction of") == true)
            #expect(alone.map(\.subject) == ["session \(changing.backendProcessID)"])
            try await changing.runScript("rollback")
            #expect(try await check.findings(in: looking) == [])
        }
    }

    @Test(arguments: [
        (-3, HealthFinding.Severity?.some(.warning), "3 s ahead of"), (90, .error, "90 s behind"), (0, nil, ""),
    ])
    func `finds a clock that differs`(offset: Int, severity: HealthFinding.Severity?, evidence: String) async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            // Half a second more, so that rounding does not matter.
            let ahead = Double(offset) + (offset == 0 ? 0 : offset > 0 ? 0.5 : -0.5)
            let check = HealthCheck.clock { Date().addingTimeInterval(ahead) }
            let findings = try await check.findings(in: connection)
            #expect(findings.map(\.severity) == [severity].compactMap(\.self))
            #expect(findings.allSatisfy { $0.evidence.contains(evidence) }, "\(findings)")
        }
    }

    @Test func `names the credential of each tenant whose queues are paused for the same reason`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript(
                """
                \(Fault.healthy)
                insert into pushq.tenant (name) values ('beta');
                insert into pushq.app (tenant_id, bundle_id) select id, 'com.beta' from pushq.tenant where name = 'beta';
                insert into pushq.credential
                    (tenant_id, name, kind, fingerprint, not_after, environments, sealed)
                  select id, 'certificate', 'certificate', '\\x00', now() + interval '1 year', '{production}', '\\x01'
                  from pushq.tenant where name = 'beta';
                insert into pushq.queue (tenant_id, app_id, environment, credential_id)
                  select c.tenant_id, a.id, 'production', c.id
                  from pushq.credential c join pushq.app a using (tenant_id) where c.name = 'certificate';
                update pushq.queue
                set paused_at = now(), paused_reason = 'APNs answered InvalidProviderToken', paused_credential_version = 1
                """)
            let findings = try await HealthCheck.pausedQueues.findings(in: connection)
            #expect(
                Set(findings.map(\.remedy.text)) == [
                    "pushq-admin credential replace acme main --p8 AuthKey_KEYID.p8 --team-id TEAM123456",
                    "pushq-admin credential replace beta certificate --pkcs12 FILE",
                ])
        }
    }

    @Test func `finds workers that may do more than send, and logins that see too little`() async throws {
        try await withDatabase { _, database in
            let looking = try await database.connect()
            #expect(try await HealthCheck.workerLogins.findings(in: looking) == [])
            #expect(try await HealthCheck.statistics.findings(in: looking) == [])
            _ = try await database.connect(as: "pushq work (leases)")
            let worker = try await database.connect(login: TestServer.workerLogin)
            let findings = try await HealthCheck.workerLogins.findings(in: looking)
            #expect(findings.map(\.subject) == ["login \(TestServer.superuser)"])
            #expect(findings.allSatisfy { $0.evidence.contains("is a superuser") })
            let blind = try await HealthCheck.statistics.findings(in: worker)
            #expect(blind.map(\.severity) == [.note])
            #expect(blind.map(\.remedy) == [.grant("grant pg_read_all_stats to \(TestServer.workerLogin);")])
        }
    }

    @Test func `finds no duty overdue that has nothing to do`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript(Fault.healthy)
            // A worker without a master key or metrics does not take these duties, and no queue needs them.
            try await connection.runScript(
                """
                update pushq.duty set next_at = now() - interval '1 hour'
                where name in ('feedback', 'webhooks', 'figures')
                """)
            #expect(try await HealthCheck.duties().findings(in: connection) == [])
        }
    }

    @Test func `finds credentials that are sealed under another master key`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript(Fault.healthy)
            #expect(try await HealthCheck.secrets(nil).findings(in: connection) == [])
            let findings = try await HealthCheck.secrets(try .random()).findings(in: connection)
            #expect(findings.map(\.severity) == [.error])
            #expect(findings.map(\.subject) == ["master key 0102030405060708"])
            for remedy in ["pushq-admin credential replace", "pushq-admin webhook set --new-secret"] {
                #expect(findings.first?.remedy.text.contains(remedy) == true, "the key may be lost")
            }
        }
    }

    @Test func `that cannot look says so, and others look all the same`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect(login: TestServer.workerLogin)
            let notMade = await #expect(throws: CheckNotMade.self) {
                try await HealthCheck.pausedCampaigns.findings(in: connection)
            }
            #expect(notMade?.check == "paused_campaigns" && notMade?.isForbidden == true, "\(notMade as Any)")
            #expect(try await HealthCheck.readOnly.findings(in: connection) == [])
        }
    }

    @Test func `says once that there is no schema`() async throws {
        try await withEmptyDatabase { _, database in
            let connection = try await database.connect()
            var findings: [HealthFinding] = []
            // The test server has settings that are findings, and the disk of this machine is not part of the test.
            let others = HealthCheck.all(version: "1.0.0", keys: nil).filter {
                !["settings", "disk"].contains($0.name)
            }
            for check in others {
                findings += try await check.findings(in: connection)
            }
            #expect(findings.map(\.remedy) == [.command("pushq-admin migrate")])
            #expect(findings.first?.evidence.contains("lacks 0001_tenants, 0002_devices, 0003_jobs and ") == true)
        }
    }

    @Test func `have names of their own`() {
        let names = HealthCheck.all(version: "1.0.0", keys: nil).map(\.name)
        #expect(Set(names).count == names.count && names.count >= 25)
    }

    @Test func `find nothing in a healthy installation, and much on a neglected server`() async throws {
        let reaper = try Reaper()
        let healthy = try await PrivatePostgres.start(reaper: reaper)
        let neglected = try await PrivatePostgres.start(
            ServerSettings([
                "fsync": "off", "full_page_writes": "off", "autovacuum": "off", "archive_mode": "on",
                "archive_command": "false", "max_prepared_transactions": "5",
            ]), reaper: reaper)
        try await withConnection(to: healthy) { connection in
            _ = try await Migrator(connection).run()
            try await connection.runScript(Fault.healthy)
            // The disk of this machine is not part of the test.
            for check in HealthCheck.all(version: "1.0.0", keys: nil) where check.name != "disk" {
                #expect(try await check.findings(in: connection) == [], "\(check.name)")
            }
        }
        try await withConnection(to: neglected) { connection in
            let settings = try await HealthCheck.settings.findings(in: connection)
            #expect(settings.map(\.subject) == ["autovacuum", "fsync", "full_page_writes"])
            #expect(settings.allSatisfy { $0.severity == .error })
            #expect(try await HealthCheck.roles.findings(in: connection) == [])
            try await connection.runScript("create schema pushq")
            let roles = try await HealthCheck.roles.findings(in: connection)
            #expect(roles.count == 4 && roles.first?.subject == "role pushq_owner")

            try await connection.runScript("create table t (n int)")
            try await connection.runScript("begin; insert into t values (1); prepare transaction 'forgotten'")
            let transactions = try await HealthCheck.transactions(olderThan: .zero).findings(in: connection)
            #expect(transactions.map(\.remedy) == [.sql("rollback prepared 'forgotten';")])
            try await connection.runScript("rollback prepared 'forgotten'")

            #expect(try await HealthCheck.archiving.findings(in: connection).isEmpty)
            try await connection.runScript("select pg_switch_wal()")
            let archiving = try await eventually("the archive command has failed", within: .seconds(60)) {
                try await HealthCheck.archiving.findings(in: connection)
            } until: {
                !$0.isEmpty
            }
            #expect(archiving.map(\.severity) == [.error])
        }
        try await healthy.stop(.immediate)
        try await neglected.stop(.immediate)
    }

    @Test func `finds a standby that is not synchronous, one that is asked itself, and a login without connections`()
        async throws
    {
        let reaper = try Reaper()
        let primary = try await PrivatePostgres.start(reaper: reaper)
        let standby = try await PrivatePostgres.startStandby(of: primary, reaper: reaper)
        try await withConnection(to: primary) { connection in
            _ = try await Migrator(connection).run()
            try await connection.runScript(Fault.healthy)
            #expect(try await HealthCheck.standby.findings(in: connection) == [])
            try await connection.runScript(
                """
                insert into pushq.message (queue_id, id, root_id, payload, push_type, at_most_once)
                  select id, 7, 7, '{}', 'alert', true from pushq.queue
                """)
            let findings = try await eventually("it is found", within: .seconds(30)) {
                try await HealthCheck.standby.findings(in: connection)
            } until: {
                $0.first?.severity == .warning
            }
            #expect(findings.allSatisfy { $0.evidence.hasPrefix("has 1 standby, none of them synchronous") })
            try await connection.carryOut(findings)
            try await eventually("it is mended", within: .seconds(30)) {
                try await HealthCheck.standby.findings(in: connection).isEmpty
            }

            // With `local`, a commit does not wait for the standby.
            #expect(try await HealthCheck.settings.findings(in: connection) == [])
            try await connection.runScript("alter role all set synchronous_commit = local")
        }
        try await withConnection(to: primary) { connection in
            let standby = try await HealthCheck.standby.findings(in: connection)
            #expect(standby.map(\.severity) == [.warning])
            let settings = try await HealthCheck.settings.findings(in: connection)
            #expect(settings.map(\.subject) == ["synchronous_commit of all roles"])
            #expect(settings.map(\.remedy) == [.sql("alter role all reset synchronous_commit;")])
            try await connection.runScript("alter role all reset synchronous_commit")
            try await connection.runScript("create role cramped login connection limit 1")
        }
        try await withConnection(to: primary) { connection in
            for (role, option, remedy) in [
                ("barred", "nologin", "login"), ("shut", "login connection limit 0", "connection limit -1"),
                ("heir", "login noinherit", "inherit"),
            ] {
                try await connection.runScript("create role \(role) \(option) in role pushq_worker")
                let logins = try await HealthCheck.workerLogins.findings(in: connection)
                #expect(logins.map(\.subject) == ["login \(role)"])
                #expect(logins.first?.remedy.text.hasPrefix("alter role \(role) \(remedy);") == true, "\(logins)")
                for finding in logins { try await connection.runScript(finding.remedy.text) }
                #expect(try await HealthCheck.workerLogins.findings(in: connection) == [])
            }
        }
        try await withConnection(to: primary, as: "cramped") { connection in
            let findings = try await HealthCheck.connections.findings(in: connection)
            #expect(findings.map(\.subject) == ["login cramped"])
            #expect(findings.map(\.remedy) == [.sql("alter role cramped connection limit -1;")])
        }
        try await withConnection(to: standby) { connection in
            let findings = try await HealthCheck.readOnly.findings(in: connection)
            #expect(findings.map(\.severity) == [.error])
            #expect(findings.map(\.evidence) == ["is a standby, which takes no writes"])
            // The other checks read what a standby has, and do not fail of what it has not.
            for check in HealthCheck.all(version: "1", keys: nil) {
                _ = try await check.findings(in: connection)
            }
            let error = await #expect(throws: PostgresError.self) { _ = try await connection.workers() }
            #expect(error?.description.contains("this server is a standby, or still replays its archive") == true)
        }
        try await standby.stop(.immediate)
        try await primary.stop(.immediate)
    }
}
