import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

private let queue = QueueName(tenant: "acme", app: "com.acme.shop", environment: .production)

extension PostgresConnection {
    /// Creates the tenant, app and queue of these tests.
    fileprivate func makeQueue() async throws {
        #expect(try await createTenant("acme"))
        #expect(try await createApp("com.acme.shop", of: "acme") == .created)
        #expect(try await createQueue(queue) == .created)
    }
}

@Suite struct `Tenants, apps and queues` {
    @Test func `are made once, and under what is there`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            #expect(try await store.createApp("com.acme.shop", of: "acme") == .parentMissing)
            #expect(try await store.createQueue(queue) == .parentMissing)
            try await store.makeQueue()
            #expect(try await !store.createTenant("acme"))
            #expect(try await store.createApp("com.acme.shop", of: "acme") == .exists)
            #expect(try await store.createQueue(queue) == .exists)
            #expect(try await store.tenants().map(\.queueCount) == [1])
            #expect(try await store.apps(of: "acme").map(\.environments) == ["production"])
            #expect(try await store.queues(of: nil).map(\.name) == [queue])
        }
    }

    @Test func `are paused by hand and by their tenant's suspension`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await store.makeQueue()
            try await store.pauseQueue(queue, reason: "badge wrong")
            #expect(try await store.queues(of: nil).map(\.pausedReason) == ["badge wrong"])
            try await store.resumeQueue(queue)
            #expect(try await store.queues(of: nil).map(\.pausedReason) == [nil])
            #expect(try await store.setTenant("acme", isSuspended: true) == true)
            #expect(try await store.queues(of: nil).map(\.pausedReason) == ["the tenant is suspended"])
            #expect(try await store.setTenant("acme", isSuspended: false) == true)
            #expect(try await store.queues(of: nil).map(\.pausedReason) == [nil])
            #expect(try await store.setTenant("acme", isSuspended: false) == false)
            #expect(try await store.setTenant("nobody", isSuspended: true) == nil)
        }
    }

    @Test func `keep fractional rates, and a burst that follows them unless given`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await store.makeQueue()
            try await store.setRate(0.5, burst: nil, of: queue)
            #expect(try await store.queues(of: nil).map { [$0.rate, $0.burst] } == [[0.5, 1]])
            try await store.setRate(250, burst: nil, of: queue)
            #expect(try await store.queues(of: nil).map { [$0.rate, $0.burst] } == [[250, 25]])
            #expect(try await store.setBurst(100, of: queue))
            #expect(try await store.queues(of: nil).map { [$0.rate, $0.burst] } == [[250, 100]])
            try await store.liftRate(of: queue)
            #expect(try await store.queues(of: nil).map(\.rate) == [nil])
            #expect(try await !store.setBurst(100, of: queue))
        }
    }

    @Test func `change only what is asked for`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await store.makeQueue()
            var change = QueueChange()
            change.weight = 3
            try await store.setQueue(queue, to: change)
            let changed = try #require(try await store.queues(of: "acme").first)
            #expect(changed.weight == 3)
            #expect(changed.connections == 4)
            #expect(changed.maxAttempts == 10)
        }
    }

    @Test func `go with their app, and all that they hold`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await store.makeQueue()
            _ = try await store.registerDevice(DeviceToken(hex: "abcd"), userKey: "1", inQueue: queue)
            _ = try await store.startCampaign(CampaignDraft(MessageDraft(payload: alert), key: "k", inQueue: queue))
            let contents = try await store.contents(ofApp: "com.acme.shop", of: "acme")
            #expect(contents?.deviceCount == 1)
            #expect(try await store.removeApp("com.acme.shop", of: "acme"))
            #expect(try await store.queues(of: nil).isEmpty)
            #expect(try await store.campaigns(ofQueue: nil, limit: 10).isEmpty)
            #expect(try await !store.removeApp("com.acme.shop", of: "acme"))
        }
    }
}

private let alert = #"{"aps":{"alert":"hello"}}"#

@Suite struct `Credentials of a tenant` {
    private func credential(_ secret: String, for id: CredentialID, under key: MasterKeys) throws -> NewCredential {
        NewCredential(
            kind: .token(teamID: "TEAM123456", keyID: "ABC123DEFG"), environments: ["production", "sandbox"],
            sealed: try key.seal(Array(secret.utf8), for: id.secretOwner))
    }

    @Test func `are sealed for their row and given to queues that have none`() async throws {
        let key = try MasterKeys.random()
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await store.makeQueue()
            let place = try #require(try await store.newCredentialID("main", of: "acme"))
            #expect(!place.isTaken)
            let sealed = try credential("secret", for: place.id, under: key)
            #expect(try await store.addCredential(sealed, name: "main", as: place.id) == .created)
            #expect(try await store.useCredentialWhereNone(place.id) == ["\(queue)"])
            let stored = try #require(try await store.sealedCredential("main", of: "acme"))
            #expect(try key.open(stored.sealed, of: stored.id.secretOwner) == Array("secret".utf8))
            #expect(try await store.newCredentialID("main", of: "acme")?.isTaken == true)
            #expect(try await store.newCredentialID("main", of: "nobody") == nil)
        }
    }

    @Test func `are not given to a queue whose interface does not take them`() async throws {
        let key = try MasterKeys.random()
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await store.makeQueue()
            let binary = QueueName(tenant: "acme", app: "com.acme.shop", environment: .sandbox)
            #expect(try await store.createQueue(binary) == .created)
            var change = QueueChange()
            change.gateway = .binary
            try await store.setQueue(binary, to: change)
            let id = try #require(try await store.newCredentialID("main", of: "acme")).id
            #expect(
                try await store.addCredential(credential("s", for: id, under: key), name: "main", as: id) == .created)
            #expect(try await store.useCredentialWhereNone(id) == ["\(queue)"])
            #expect(try await store.credentialChoice(for: binary).fitting == [])
            #expect(try await store.queuesWithoutCredential(of: "acme", for: .token) == [])
            #expect(try await store.queuesWithoutCredential(of: "acme", for: .certificate) == [binary])
        }
    }

    @Test func `are replaced in place, with a new version, and resume what they had stopped`() async throws {
        let key = try MasterKeys.random()
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await store.makeQueue()
            let id = try #require(try await store.newCredentialID("main", of: "acme")).id
            #expect(
                try await store.addCredential(credential("old", for: id, under: key), name: "main", as: id) == .created)
            _ = try await store.useCredentialWhereNone(id)
            try await store.runScript(
                "update pushq.queue set paused_at = now(), paused_reason = '403', paused_credential_version = 1")
            #expect(try await store.replaceCredential(id, by: credential("new", for: id, under: key)) == 1)
            #expect(try await store.credentials(of: nil).map(\.version) == [2])
            #expect(try await store.queues(of: nil).map(\.pausedReason) == [nil])
        }
    }

    @Test func `stay while a queue is sent with them`() async throws {
        let key = try MasterKeys.random()
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await store.makeQueue()
            for name in ["main", "spare"] {
                let id = try #require(try await store.newCredentialID(name, of: "acme")).id
                #expect(
                    try await store.addCredential(credential(name, for: id, under: key), name: name, as: id) == .created
                )
            }
            #expect(try await store.useCredential("main", forQueue: queue))
            #expect(try await !store.useCredential("other", forQueue: queue))
            #expect(try await store.removeCredential("main", of: "acme") == 1)
            #expect(try await store.removeCredential("spare", of: "acme") == 0)
            #expect(try await store.removeCredential("spare", of: "acme") == nil)
            #expect(try await store.credentials(of: "acme").map(\.name) == ["main"])
        }
    }

    @Test func `are taken by a new queue if only one is good for it`() async throws {
        let key = try MasterKeys.random()
        try await withDatabase { _, database in
            let store = try await database.connect()
            try await store.makeQueue()
            let id = try #require(try await store.newCredentialID("main", of: "acme")).id
            #expect(
                try await store.addCredential(credential("s", for: id, under: key), name: "main", as: id) == .created)
            let sandbox = QueueName(tenant: "acme", app: "com.acme.shop", environment: .sandbox)
            #expect(try await store.createQueue(sandbox) == .created)
            #expect(try await store.queues(of: nil).map(\.credential) == [nil, "main"])
        }
    }
}
