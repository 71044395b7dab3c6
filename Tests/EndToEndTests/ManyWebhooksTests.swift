import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

extension `Measured processes` {
    /// What the webhooks of some tenants do to those of others.
    @Suite struct `The webhooks of many tenants` {
        private static let isOfSlow = "tenant_id = (select id from pushq.tenant where name = 'slow')"
        private static let secret = "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

        private func queue(of tenant: String) -> QueueName {
            QueueName(tenant: tenant, app: "com.\(tenant)", environment: .sandbox)
        }

        /// Creates tenants whose webhooks are at the receiver.
        private func create(
            _ tenants: [String], at behaviour: String, of receiver: WebhookReceiver, _ rig: Rig
        ) async throws {
            let connection = try await rig.store.current()
            for tenant in tenants {
                _ = try await connection.createTenant(tenant)
                let queue = queue(of: tenant)
                _ = try await connection.createApp(queue.app, of: tenant)
                _ = try await connection.createQueue(queue)
                let id = Int32(try await rig.number("select id from pushq.tenant where name = '\(tenant)'"))
                let secret = try #require(Data(base64Encoded: Self.secret))
                try await connection.setWebhook(
                    ofTenant: id, url: receiver.url(behaviour),
                    sealed: rig.masterKeys.seal(Array(secret), for: .webhook(tenantID: id)), formerFor: .zero)
            }
        }

        /// Lists a report about a device of each of these tenants. Their webhooks have been due since `due`.
        private func report(_ tenants: [String], due: String = "now()", _ rig: Rig) async throws {
            let names = tenants.map { "'\($0)'" }.joined(separator: ",")
            try await rig.run(
                """
                with d as (
                  insert into pushq.device (queue_id, token, active, inactive_since, inactive_reason)
                  select pushq.queue_id(t.name || '/com.' || t.name || '/sandbox'),
                         sha256(convert_to(t.name || gen_random_uuid(), 'UTF8')), false, now(), 26
                  from pushq.tenant t
                  where t.name in (\(names))
                  returning queue_id, id)
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
                select queue_id, id, 26, now(), 'deactivated' from d;
                update pushq.webhook_progress p
                set not_before = \(due)
                from pushq.tenant t
                where t.id = p.tenant_id and t.name in (\(names)) and p.taken_until is null;
                select pushq.list_feedback(1000);
                """)
        }

        /// Has these tenants' receivers accepted a message an hour ago.
        private func noteDelivery(to tenants: [String], _ rig: Rig) async throws {
            let names = tenants.map { "'\($0)'" }.joined(separator: ",")
            try await rig.run(
                """
                update pushq.webhook_progress p
                set delivered_at = now() - interval '1 hour'
                from pushq.tenant t
                where t.id = p.tenant_id and t.name in (\(names))
                """)
        }

        private func startWorker(_ rig: Rig, trusting receiver: WebhookReceiver) throws -> WorkerProcess {
            try rig.startWorker(
                environment: ["SSL_CERT_FILE": receiver.authority], ["--webhook-allow", "127.0.0.0/8"])
        }

        private func requests(_ behaviour: String, _ receiver: WebhookReceiver) throws -> [WebhookReceiver.Record] {
            try receiver.records().filter { $0.path == "/\(behaviour)" }
        }

        private func waitForReport(
            of tenant: String, within limit: Duration = .seconds(240), _ receiver: WebhookReceiver
        ) async throws {
            try await eventually("the report of \(tenant)", within: limit) {
                try requests("take", receiver).contains { $0.tenant == tenant }
            }
        }

        @Test func `do not wait for any number of receivers that never answered`() async throws {
            try await withRig {
                $0.devices = 1
            } _: { rig in
                let receiver = try await WebhookReceiver.start(secrets: ["whsec_" + Self.secret])
                let silent = (1...200).map { "silent-\($0)" }
                try await create(silent, at: "silent", of: receiver, rig)
                try await create(["healthy"], at: "take", of: receiver, rig)
                try await noteDelivery(to: ["healthy"], rig)
                // All the others have waited for longer.
                try await report(silent, due: "now() - interval '10 minutes'", rig)
                try await report(["healthy"], rig)
                _ = try startWorker(rig, trusting: receiver)
                try await waitForReport(of: "healthy", receiver)
                let tried = Set(try requests("silent", receiver).map(\.tenant))
                #expect(tried.count < silent.count, "it waited for \(tried.count)")
            }
        }

        @Test func `do not wait for many receivers that answered until a moment ago`() async throws {
            try await withRig {
                $0.devices = 1
            } _: { rig in
                let receiver = try await WebhookReceiver.start(secrets: ["whsec_" + Self.secret])
                let silent = (1...200).map { "silent-\($0)" }
                try await create(silent, at: "silent", of: receiver, rig)
                try await create(["healthy"], at: "take", of: receiver, rig)
                try await noteDelivery(to: silent + ["healthy"], rig)
                try await report(silent, due: "now() - interval '10 minutes'", rig)
                try await report(["healthy"], rig)
                _ = try startWorker(rig, trusting: receiver)
                try await waitForReport(of: "healthy", receiver)
                let failed = try await rig.number("select count(*) from pushq.webhook_progress where failures > 0")
                #expect(failed < 100, "it waited until \(failed) had failed")
            }
        }

        /// Runs `body` with a worker that waits for the receiver of tenant `slow`, and a tenant `healthy`.
        private func whileOneIsSlow(
            _ body: @escaping @Sendable (Rig, WebhookReceiver, WorkerProcess) async throws -> Void
        ) async throws {
            try await withRig {
                $0.devices = 1
            } _: { rig in
                let receiver = try await WebhookReceiver.start(secrets: ["whsec_" + Self.secret])
                try await create(["slow"], at: "silent", of: receiver, rig)
                try await create(["healthy"], at: "take", of: receiver, rig)
                let worker = try startWorker(rig, trusting: receiver)
                try await report(["slow"], rig)
                try await eventually("a message under way", within: .seconds(60)) {
                    try !requests("silent", receiver).isEmpty
                }
                try await body(rig, receiver, worker)
            }
        }

        @Test
        func `go on when the worker that sends them is killed, before it can be known what became of its messages`()
            async throws
        {
            try await whileOneIsSlow { rig, receiver, doomed in
                _ = try startWorker(rig, trusting: receiver)
                await doomed.kill()
                try await report(["healthy"], rig)
                try await waitForReport(of: "healthy", receiver)
                #expect(try requests("silent", receiver).count == 1)
                let isReserved = try await rig.number(
                    """
                    select count(*) from pushq.webhook_progress
                    where \(Self.isOfSlow) and taken_until > clock_timestamp()
                    """)
                #expect(isReserved == 1, "the turn of the killed worker is over")
            }
        }

        @Test func `do not wait for the last answer to a worker that is stopped`() async throws {
            try await whileOneIsSlow { rig, receiver, stopped in
                let next = try startWorker(rig, trusting: receiver)
                try await next.says("started")
                async let exit = stopped.drain()
                try await stopped.says("draining")
                try await report(["healthy"], rig)
                try await waitForReport(of: "healthy", receiver)
                // The stopped worker still waits for its message, which the other one does not send meanwhile.
                let failures = "select failures from pushq.webhook_progress where \(Self.isOfSlow)"
                #expect(try await rig.number(failures) == 0)
                #expect(try requests("silent", receiver).count == 1)
                #expect(await exit == .code(0))
                #expect(try await rig.number(failures) == 1)
            }
        }
    }
}
