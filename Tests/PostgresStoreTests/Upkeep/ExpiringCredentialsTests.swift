import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite struct `Certificates that come to their end` {
    /// Adds a certificate with `daysLeft` days left, and a queue that uses it.
    private func add(_ name: String, daysLeft: Double, to store: PostgresConnection) async throws {
        let queue = QueueName(tenant: "acme", app: "com.\(name)", environment: .production)
        _ = try await store.createTenant("acme")
        _ = try await store.createApp(queue.app, of: "acme")
        _ = try await store.createQueue(queue)
        let id = try #require(try await store.newCredentialID(name, of: "acme")).id
        let credential = NewCredential(
            kind: .certificate(topics: [queue.app], fingerprint: [1], notAfter: Date.now + daysLeft * 86_400),
            environments: ["production"], sealed: [1])
        #expect(try await store.addCredential(credential, name: name, as: id) == .created)
        #expect(try await store.useCredential(name, forQueue: queue))
    }

    @Test func `are announced once for each threshold, by one worker`() async throws {
        try await withDatabase { _, database in
            let (store, other) = (try await database.connect(), try await database.connect())
            try await add("far", daysLeft: 31, to: store)
            try await add("near", daysLeft: 29.5, to: store)
            let told = try await store.noteExpiringCredentials().noted
            #expect(told.map(\.name) == ["near"])
            #expect(told.map(\.expiry.warning) == ["expires in 29 days"])
            #expect(told.map(\.queueCount) == [1])
            #expect(try await other.noteExpiringCredentials().noted.isEmpty)

            // Three thresholds have passed, but there is only one warning.
            try await store.runScript(
                "update pushq.credential set not_after = now() + interval '5 days' where name = 'near'")
            #expect(try await other.noteExpiringCredentials().noted.map(\.expiry.threshold) == [7])
            #expect(try await store.noteExpiringCredentials().noted.isEmpty)
            try await store.runScript("update pushq.credential set not_after = now() where name = 'near'")
            #expect(try await store.noteExpiringCredentials().noted.map(\.expiry.warning) == ["expired"])
        }
    }

    @Test func `are announced next time if another transaction holds them, as when a queue is paused`() async throws {
        try await withDatabase { _, database in
            let (store, other) = (try await database.connect(), try await database.connect())
            try await add("near", daysLeft: 0, to: store)
            try await other.runScript("begin; select from pushq.credential for share")
            let held = try await store.noteExpiringCredentials()
            #expect(held.noted.isEmpty)
            #expect(!held.areAll)

            try await other.runScript("rollback")
            let free = try await store.noteExpiringCredentials()
            #expect(free.noted.map(\.name) == ["near"])
            #expect(free.areAll)
        }
    }

    @Test func `are announced again after they were replaced`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await add("near", daysLeft: 5, to: store)
            #expect(try await store.noteExpiringCredentials().noted.count == 1)
            let id = try #require(try await store.sealedCredential("near", of: "acme")).id
            let next = NewCredential(
                kind: .certificate(topics: ["com.near"], fingerprint: [2], notAfter: Date.now + 6 * 86_400),
                environments: ["production"], sealed: [2])
            _ = try await store.replaceCredential(id, by: next)
            #expect(try await store.noteExpiringCredentials().noted.count == 1)
        }
    }

    @Test func `are announced again at their time if a clock that was ahead made the first warnings`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            for (name, daysLeft) in [("far", 100.0), ("near", 20.0), ("slight", 7.1)] {
                try await add(name, daysLeft: daysLeft, to: store)
            }
            // The warnings of a clock that was a hundred days ahead, and of one that was some hours ahead.
            try await store.runScript(
                "update pushq.credential set warned_days = case name when 'slight' then 7 else 0 end")
            #expect(try await store.noteExpiringCredentials().noted.isEmpty)
            #expect(try await store.noteExpiringCredentials().noted.map(\.expiry.threshold) == [30])
            #expect(try await store.noteExpiringCredentials().noted.isEmpty)
            try await store.runScript(
                "update pushq.credential set not_after = now() + interval '6 days' where name in ('far', 'slight')")
            let told = try await store.noteExpiringCredentials().noted
            #expect(told.map(\.name) == ["far"])
        }
    }

    @Test func `are shown with their warning, and expired ones are taken by no queue by itself`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await add("near", daysLeft: 5.5, to: store)
            #expect(try await store.credentials(of: nil).map(\.expiry?.warning) == ["expires in 5 days"])
            try await store.runScript(
                "update pushq.queue set credential_id = null; update pushq.credential set not_after = now()")
            let id = try #require(try await store.sealedCredential("near", of: "acme")).id
            #expect(try await store.useCredentialWhereNone(id).isEmpty)
        }
    }
}
