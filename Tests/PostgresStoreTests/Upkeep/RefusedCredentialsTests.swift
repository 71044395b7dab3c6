import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A queue whose credential APNs refuses` {
    private static let state = """
        select coalesce(paused_reason, '-') || ' ' || credential_refusals as text from pushq.queue
        """

    private func pause(_ queue: QueueFixture) async throws {
        let settings = try #require(try await queue.worker.queueSettings([queue.id]).first)
        let credential = CredentialVersion(try #require(settings.credential))
        #expect(try await queue.worker.pauseQueue(queue.id, reason: "403", credential: credential) == true)
    }

    private func age(_ queue: QueueFixture, by interval: String) async throws {
        try await queue.run(
            """
            update pushq.queue
            set paused_at = paused_at - interval '\(interval)', resumed_at = resumed_at - interval '\(interval)'
            """)
    }

    @Test func `is tried again after 15 minutes, then less and less often, over new connections`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.addCredential()
            let version = "select version::text as text from pushq.credential"
            for (refusals, minutes) in [15, 30, 60, 120, 240, 360, 360].enumerated() {
                try await pause(queue)
                #expect(try await queue.texts(Self.state) == ["403 \(refusals + 1)"])
                try await age(queue, by: "\(minutes * 60 - 1) seconds")
                _ = try await queue.worker.retryRefusedQueues()
                #expect(try await queue.texts(Self.state) == ["403 \(refusals + 1)"], "\(minutes)")
                try await age(queue, by: "1 second")
                _ = try await queue.worker.retryRefusedQueues()
                #expect(try await queue.texts(Self.state) == ["- \(refusals + 1)"], "\(minutes)")
                #expect(try await queue.texts(version) == ["\(refusals + 2)"])
            }
            // Pushes were accepted for two hours before the next refusal.
            try await queue.run("update pushq.queue set resumed_at = now() - interval '2 hours'")
            try await pause(queue)
            #expect(try await queue.texts(Self.state) == ["403 1"])
        }
    }

    @Test func `is tried again with all others of its credential, which gets one version for them`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                insert into pushq.app (tenant_id, bundle_id)
                  select id, 'com.acme.' || i from pushq.tenant, generate_series(1, 29) i;
                insert into pushq.queue (tenant_id, app_id, environment)
                  select tenant_id, id, 'sandbox' from pushq.app where bundle_id <> 'com.acme'
                """)
            try await queue.addCredential()
            try await queue.run(
                """
                update pushq.queue
                set paused_at = now() - interval '1 hour' - id * interval '1 second', paused_reason = '403',
                    paused_credential_version = 1
                """)
            _ = try await queue.worker.retryRefusedQueues()
            #expect(try await queue.number("select count(*) from pushq.queue where paused_at is null") == 30)
            #expect(try await queue.number("select version from pushq.credential") == 2)
        }
    }

    @Test func `is tried again after it was paused while the database's clock was ahead`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.addCredential()
            try await pause(queue)
            try await queue.run("update pushq.queue set paused_at = now() + interval '2 days'")
            _ = try await queue.worker.retryRefusedQueues()
            #expect(try await queue.texts(Self.state) == ["- 1"])
        }
    }

    @Test func `stays paused with an expired certificate, and if somebody else has paused it`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.addCredential()
            try await pause(queue)
            try await age(queue, by: "1 day")
            try await queue.run("update pushq.credential set not_after = now() - interval '1 second'")
            _ = try await queue.worker.retryRefusedQueues()
            #expect(try await queue.texts(Self.state) == ["403 1"])
            try await queue.run("update pushq.credential set not_after = null")
            try await queue.connection.pauseQueue(QueueFixture.name, reason: "sale is over")
            _ = try await queue.worker.retryRefusedQueues()
            #expect(try await queue.texts(Self.state) == ["sale is over 1"])
            #expect(try await queue.connection.resumeQueue(QueueFixture.name))
            #expect(try await queue.texts(Self.state) == ["- 0"])
        }
    }
}
