import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@Suite(.timeLimit(.minutes(10))) struct `Settings of a queue` {
    @Test func `are not there for a worker that does not know the queue's interface`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            #expect(try await queue.worker.queueSettings([queue.id]).map(\.gateway) == [.http2])
            try await queue.run(
                """
                alter table pushq.queue drop constraint queue_gateway_known;
                update pushq.queue set gateway = 'http3' where id = \(queue.id)
                """)
            #expect(try await queue.worker.queueSettings([queue.id]).isEmpty)
        }
    }

    /// Either the session that replaces the credential finds the pause, or the pause finds that it was replaced.
    @Test(arguments: [false, true])
    func `are paused for no credential that is replaced at the same time`(isPausedFirst: Bool) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run(
                """
                insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
                  select id, 'main', 'token', 'TEAM123456', 'KEY1234567', '{sandbox}', '' from pushq.tenant;
                update pushq.queue q set credential_id = c.id from pushq.credential c;
                """)
            let credential = try #require(try await queue.worker.queueSettings([queue.id]).first?.credential)
            func pause() async throws -> Bool? {
                try await queue.worker.pauseQueue(
                    queue.id, reason: "refused", credential: CredentialVersion(credential))
            }
            let replacement = NewCredential(
                kind: .token(teamID: "TEAM123456", keyID: "KEY7654321"), environments: ["sandbox"], sealed: [2])
            let other = try await database.connect()
            let id = try #require(try await other.sealedCredential("main", of: QueueFixture.name.tenant)).id
            if isPausedFirst {
                // The session that replaces the credential waits for the pause that is being written, and then ends the
                // pause.
                try await queue.worker.runScript("begin")
                #expect(try await pause() == true)
                let replacing = Task {
                    _ = actor  // where the connection lives
                    return try await other.replaceCredential(id, by: replacement)
                }
                try await database.waitUntilBlocked("it waits for the pause", running: "credential")
                try await queue.worker.runScript("commit")
                #expect(try await replacing.value == 1)
            } else {
                try await other.runScript("begin")
                #expect(try await other.replaceCredential(id, by: replacement) == 0)
                #expect(try await pause() == nil, "it asks again later")
                try await other.runScript("commit")
                #expect(try await pause() == false)
            }
            #expect(try await queue.number("select count(*) from pushq.queue where paused_at is not null") == 0)
        }
    }
}
