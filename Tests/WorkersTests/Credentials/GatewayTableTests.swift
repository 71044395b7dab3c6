import Foundation
import QueueCore
import Testing

@testable import PostgresStore
@testable import Workers

/// The settings of a queue with a credential.
private func settings(
    _ id: Int32 = 1, credential: CredentialVersion? = .init(id: 1, version: 1), environment: Environment = .sandbox,
    interface: GatewayKind = .http2, connections: Int = 4, tenantID: Int32 = 1
) -> QueueSettings {
    QueueSettings(
        queueID: id, tenantID: tenantID,
        name: QueueName(tenant: "acme", app: "com.acme.n\(id)", environment: environment),
        weight: 1, tenantWeight: 1,
        connections: connections, tenantConnections: nil, maxAttempts: 3, gateway: interface, derivesCollapseID: true,
        rate: nil,
        tenantRate: nil,
        isPaused: false,
        credential: credential.map {
            StoredCredential(
                id: $0.id, tenantID: tenantID, version: $0.version, replacedAt: $0.replacedAt,
                kind: .certificate(fingerprint: []), sealed: [], expiredAt: nil)
        })
}

extension GatewayTable {
    fileprivate func entry(for use: GatewayUse, now: ContinuousClock.Instant) -> Entry? {
        if case .open(let entry) = find(use, now: now) { entry } else { nil }
    }

    /// Opens a gateway for a use, with a known secret.
    fileprivate mutating func open(_ entry: Entry, secret: UInt8, for use: GatewayUse) -> Bool {
        note(secret: [secret], of: use.credential)
        if case .inserted = insert(entry, for: use) { return true }
        return false
    }
}

@Suite struct `Which gateway serves whom` {
    private let now = ContinuousClock.now

    @Test func `is the same for a tenant's queues whose credentials hold the same secret`() {
        var table = GatewayTable<String>()
        let mine = GatewayUse(settings(1))!
        let theirs = GatewayUse(settings(2, credential: .init(id: 2, version: 1)))!
        #expect(table.open("a", secret: 7, for: mine) == true)
        #expect(table.entry(for: mine, now: now) == "a")
        #expect(table.entry(for: theirs, now: now) == nil)
        table.note(secret: [7], of: theirs.credential)
        #expect(table.entry(for: theirs, now: now) == "a")
        table.note(secret: [8], of: theirs.credential)
        #expect(table.entry(for: theirs, now: now) == nil)
    }

    @Test func `is another where a restored database counts a credential's versions again`() {
        var table = GatewayTable<String>()
        let lost = GatewayUse(settings(credential: .init(id: 1, version: 2, replacedAt: .distantPast)))!
        let now = GatewayUse(settings(credential: .init(id: 1, version: 2, replacedAt: .distantFuture)))!
        #expect(table.open("a", secret: 7, for: lost) == true)
        table.note(secret: [8], of: now.credential)
        #expect(table.entry(for: now, now: self.now) == nil)
        #expect(table.open("b", secret: 8, for: now) == true)
        #expect(table.entry(for: now, now: self.now) == "b")
    }

    @Test
    func `is another for another tenant, or a new version, environment, interface, host, or number of connections`() {
        var table = GatewayTable<String>()
        let use = GatewayUse(settings())!
        #expect(table.open("a", secret: 7, for: use) == true)
        let others = [
            GatewayUse(settings(credential: .init(id: 1, version: 2))), GatewayUse(settings(environment: .production)),
            GatewayUse(settings(interface: .binary)), GatewayUse(settings(connections: 5)),
            GatewayUse(settings(), isForBroadcasts: true),
            GatewayUse(settings(credential: .init(id: 9, version: 1), tenantID: 2)),
        ]
        for other in others.compactMap(\.self) {
            table.note(secret: [7], of: other.credential)
            #expect(table.entry(for: other, now: now) == nil, "\(other)")
        }
        #expect(GatewayUse(settings(credential: nil)) == nil)
    }

    @Test func `is the one that was opened first, and the other is handed back`() {
        var table = GatewayTable<String>()
        let use = GatewayUse(settings())!
        #expect(table.open("a", secret: 7, for: use) == true)
        guard case .superseded(by: "a") = table.insert("b", for: use) else {
            Issue.record("two gateways for one use")
            return
        }
        #expect(table.close() == ["a"])
        guard case .tooLate = table.insert("c", for: use) else {
            Issue.record("a gateway that nobody would close")
            return
        }
    }

    @Test func `is dropped once, when nobody uses it any more`() {
        var table = GatewayTable<String>()
        let (old, new) = (GatewayUse(settings())!, GatewayUse(settings(credential: .init(id: 1, version: 2)))!)
        #expect(table.open("a", secret: 7, for: old) == true)
        #expect(table.open("b", secret: 7, for: new) == true)
        #expect(table.keepOnly([old, new]) == [])
        #expect(table.keepOnly([new]) == ["a"])
        #expect(table.keepOnly([new]) == [])
        #expect(table.entry(for: new, now: now) == "b")
    }

    @Test func `is none for a minute where a credential cannot be used, which is said once until it can`() {
        var table = GatewayTable<String>()
        let use = GatewayUse(settings())!
        #expect(table.noteUnusable(use, because: "no key", now: now) == true)
        guard case .unusable = table.find(use, now: now + .seconds(59)) else {
            Issue.record("it is tried again at once")
            return
        }
        guard case .unopened = table.find(use, now: now + .seconds(60)) else {
            Issue.record("it is not tried again")
            return
        }
        #expect(table.noteUnusable(use, because: "no key", now: now + .seconds(60)) == false)
        #expect(table.open("a", secret: 7, for: use) == true)
        _ = table.keepOnly([use])
        #expect(
            table.noteUnusable(use, because: "no key", now: now + .seconds(70)) == true, "it could be used meanwhile")
        #expect(
            table.noteUnusable(
                GatewayUse(settings(interface: .binary))!, because: "a signing key", now: now) == true,
            "that is another matter")
    }
}

@Suite struct `When a provider token is asked for` {
    private let now = ContinuousClock.now

    @Test func `is when it is due, or APNs calls it expired`() {
        var upkeep = TokenUpkeep(responseTime: .seconds(10))
        #expect(upkeep.next(isDue: false) == .init())
        #expect(upkeep.next(isDue: true) == .init(asks: true))
        #expect(upkeep.noteExpired(now: now) == true)
        #expect(upkeep.next(isDue: false) == .init(asks: true, isRefused: true))
        #expect(upkeep.next(isDue: false) == .init())
    }

    @Test func `is not for late answers about the token before`() {
        var upkeep = TokenUpkeep(responseTime: .seconds(10))
        upkeep.noteReplaced(now: now)
        #expect(upkeep.noteExpired(now: now + .seconds(9)) == false)
        #expect(upkeep.next(isDue: false) == .init())
        #expect(upkeep.noteExpired(now: now + .seconds(10)) == true)
    }

    @Test func `is again where PostgreSQL could not be asked`() {
        var upkeep = TokenUpkeep(responseTime: .seconds(10))
        _ = upkeep.noteExpired(now: now)
        upkeep.noteTooMany()
        let step = upkeep.next(isDue: false)
        #expect(step == .init(keeps: true, asks: true, isRefused: true))
        upkeep.noteFailed(step)
        #expect(upkeep.next(isDue: false) == step)
    }

    @Test(arguments: [
        (nil, false, false, true, TokenRules.Decision.mint(ifOlderThan: .seconds(2700))),
        (44, false, false, true, .use), (45, false, false, true, .mint(ifOlderThan: .seconds(2700))),
        (50, true, false, true, .use), (19, false, true, true, .use),
        (20, false, true, true, .mint(ifOlderThan: .seconds(1200))), (50, true, true, true, .use),
        (5, false, false, false, .wait(.seconds(900))), (25, false, false, false, .mint(ifOlderThan: .seconds(1200))),
        (50, true, false, false, .wait(.seconds(1200))),
    ])
    func `is answered by its age in minutes, whether it must stay, was refused, and can be read`(
        age: Int?, isKept: Bool, isRefused: Bool, isReadable: Bool, decision: TokenRules.Decision
    ) {
        let decided = TokenRules.decide(
            age: age.map { .seconds($0 * 60) }, isKept: isKept, isRefused: isRefused, isReadable: { isReadable })
        #expect(decided == decision)
    }
}
