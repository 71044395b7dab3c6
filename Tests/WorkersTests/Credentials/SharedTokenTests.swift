import APNs
import Cryptography
import PostgresStore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite struct `The provider token of a signer` {
    private static let masterKeys = MasterKeys(MasterKey(Array(repeating: 7, count: 32))!)
    private let key: PrivateKey
    private let signer: TokenSigner

    init() throws {
        key = try .makeP256()
        signer = try TokenSigner(key: key, teamID: "TEAM123456", keyID: "ABC123DEFG")
    }

    /// The shared token of a worker that has just started, on a connection of its own.
    private func tokens(
        of signer: TokenSigner, _ database: TestDatabase, events: EventLog = EventLog(),
        masterKeys: MasterKeys = Self.masterKeys
    ) -> SharedToken {
        let connection = ReconnectingConnection(to: database.address, as: "test", on: database.loop)
        let store = RetryingConnection(connection, loop: database.loop, report: events.append)
        return SharedToken(store: store, masterKeys: masterKeys, signer: signer, report: events.append)
    }

    /// Makes the stored token older.
    private func age(_ connection: PostgresConnection, by interval: String) async throws {
        try await connection.runScript(
            """
            update pushq.provider_token
            set issued_at = issued_at - interval '\(interval)', keep_until = keep_until - interval '\(interval)'
            """)
    }

    @Test func `is the same for ten starts, and for two credentials with one key`() async throws {
        try await withDatabase { _, database in
            var seen: Set<String> = []
            for _ in 0..<10 { seen.insert(try await tokens(of: signer, database).current().text) }
            let same = try TokenSigner(key: key, teamID: "TEAM123456", keyID: "ABC123DEFG")
            seen.insert(try await tokens(of: same, database).current().text)
            #expect(seen.count == 1)
        }
    }

    @Test func `is not shared with another tenant that names the same team and key`() async throws {
        try await withDatabase { _, database in
            let other = try TokenSigner(key: .makeP256(), teamID: signer.teamID, keyID: signer.keyID)
            let mine = try await tokens(of: signer, database).current()
            let theirs = try await tokens(of: other, database).current()
            #expect(mine.text != theirs.text)
            #expect(other.digest != signer.digest)
            #expect(try await tokens(of: signer, database).current().text == mine.text, "nor is it replaced by theirs")
        }
    }

    @Test func `is minted once in 45 minutes by the whole fleet, over three hours`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let fleet = (0..<4).map { _ in tokens(of: signer, database) }
            var seen: [String] = []
            for _ in 0..<36 {
                var now: Set<String> = []
                for worker in fleet { now.insert(try await worker.current().text) }
                #expect(now.count == 1)
                seen += now
                try await age(connection, by: "5 minutes")
            }
            // Each step moves the clock by five minutes, so each token is used in nine steps.
            let lifetimes = seen.reduce(into: [String: Int]()) { $0[$1, default: 0] += 1 }.values
            #expect(lifetimes.sorted() == [9, 9, 9, 9])
        }
    }

    @Test func `is minted once when all workers find it too old at the same moment`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let fleet = (0..<8).map { _ in tokens(of: signer, database) }
            _ = try await fleet[0].current()
            try await age(connection, by: "46 minutes")
            var seen: [String] = []
            for worker in fleet {
                database.loop.startTask { seen.append((try? await worker.current().text) ?? "none") }
            }
            try await eventually("all to have one") { seen.count == fleet.count }
            #expect(Set(seen).count == 1)
            #expect(!seen.contains("none"))
        }
    }

    @Test func `is not minted again within 20 minutes though APNs calls it expired, and that is said once`()
        async throws
    {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let events = EventLog()
            let worker = tokens(of: signer, database, events: events)
            let first = try await worker.current()
            for _ in 0..<5 {
                try await age(connection, by: "3 minutes")
                #expect(try await worker.current(isRefused: true).text == first.text)
            }
            #expect(events.all.count { $0.contains("correct the clock") } == 1)
            #expect(events.contains("key ABC123DEFG"))

            try await age(connection, by: "5 minutes")
            #expect(try await worker.current(isRefused: true).text != first.text, "after 20 minutes it may be replaced")
        }
    }

    @Test func `is not doubted where another process has replaced the one that was refused`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let events = EventLog()
            let (first, second) = (
                tokens(of: signer, database, events: events), tokens(of: signer, database, events: events)
            )
            #expect(try await first.current().text == second.current().text)
            try await age(connection, by: "30 minutes")
            let new = try await first.current(isRefused: true)
            #expect(try await second.current(isRefused: true).text == new.text)
            #expect(events.all.isEmpty)
            #expect(try await second.current(isRefused: true).text == new.text)
            #expect(events.all.count { $0.contains("correct the clock") } == 1, "this one was refused, too")
        }
    }

    @Test func `sealed under a master key that was replaced is minted anew, once in 20 minutes, and that is said once`()
        async throws
    {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let events = EventLog()
            let other = MasterKeys(MasterKey(Array(repeating: 8, count: 32))!)
            let first = try await tokens(of: signer, database).current()
            let worker = tokens(of: signer, database, events: events, masterKeys: other)
            await #expect(throws: CredentialProblem.self) { try await worker.current() }
            do { _ = try await worker.current() } catch {
                #expect("\(error)".contains("a new one is minted in 20 minutes"))
                #expect(
                    "\(error)".contains(
                        "sealed under master key \(Self.masterKeys.first.name), and this process has only \(other.first.name)"
                    ))
            }
            try await age(connection, by: "20 minutes")
            let second = try await worker.current()
            #expect(second.text != first.text)
            #expect(try await worker.current().text == second.text)
            #expect(events.all.count { $0.contains("sealed under another master key") } == 1)
            #expect(try await tokens(of: signer, database, masterKeys: other).current().text == second.text)
        }
    }

    @Test func `sealed under either of two master keys is shared by workers that know both`() async throws {
        try await withDatabase { _, database in
            let (old, new) = (try MasterKey.random(), try MasterKey.random())
            let before = MasterKeys(old, opening: [new])
            let after = MasterKeys(new, opening: [old])
            let first = try await tokens(of: signer, database, masterKeys: before).current()
            #expect(try await tokens(of: signer, database, masterKeys: after).current().text == first.text)
            let store = try await database.connect()
            #expect(try await store.reseal(under: after).tokens == 1)
            #expect(try await tokens(of: signer, database, masterKeys: before).current().text == first.text)
            #expect(try await tokens(of: signer, database, masterKeys: MasterKeys(new)).current().text == first.text)
        }
    }

    @Test func `is kept for 20 minutes after TooManyProviderTokenUpdates, even if it is due`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let worker = tokens(of: signer, database)
            let first = try await worker.current()
            try await age(connection, by: "30 minutes")
            try await worker.keep()
            try await age(connection, by: "19 minutes")
            #expect(try await worker.current().text == first.text)
            #expect(try await worker.current(isRefused: true).text == first.text)
            try await age(connection, by: "1 minute")
            #expect(try await worker.current().text != first.text)
        }
    }

    @Test func `is not kept until APNs takes it no more`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let events = EventLog()
            let worker = tokens(of: signer, database, events: events)
            let first = try await worker.current()
            try await age(connection, by: "58 minutes")
            try await worker.keep()
            try await age(connection, by: "4 minutes")
            #expect(try await worker.current(isRefused: true).text != first.text)
            #expect(!events.contains("correct the clock"))
        }
    }

    @Test(arguments: [false, true])
    func `is minted anew when the clock is set back, also if APNs had asked to keep it`(isKept: Bool) async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let events = EventLog()
            let worker = tokens(of: signer, database, events: events)
            let first = try await worker.current()
            if isKept { try await worker.keep() }
            try await age(connection, by: "-2 hours")
            let second = try await worker.current(isRefused: true)
            #expect(second.text != first.text)
            #expect(!events.contains("correct the clock"))
            #expect(try await tokens(of: signer, database).current().text == second.text)
        }
    }

    @Test func `may be replaced though a clock that was fast wants it kept for hours`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            let worker = tokens(of: signer, database)
            let first = try await worker.current()
            try await age(connection, by: "46 minutes")
            try await connection.runScript("update pushq.provider_token set keep_until = now() + interval '2 hours'")
            #expect(try await worker.current().text != first.text)
        }
    }

    // MARK: Kept in another database

    /// The shared token of a worker that serves one database while another database keeps the tokens.
    private func tokens(
        of signer: TokenSigner, in own: RetryingConnection, keeper: RetryingConnection
    ) -> SharedToken {
        SharedToken(store: own, keeper: keeper, masterKeys: Self.masterKeys, signer: signer) { _ in }
    }

    /// Runs `body` with a worker's stores for its own database and for the keeper, and a connection to each.
    private func withKeeper(
        _ body:
            @escaping @Sendable (
                isolated LoopActor, (own: RetryingConnection, keeper: RetryingConnection),
                (own: PostgresConnection, keeper: PostgresConnection)
            ) async throws -> Void
    ) async throws {
        try await withTwoDatabases { actor, keeper, own in
            let stores = [own, keeper].map { database in
                RetryingConnection(
                    ReconnectingConnection(to: database.address, as: "test", on: actor.loop), loop: actor.loop
                ) { _ in }
            }
            try await body(actor, (stores[0], stores[1]), (try await own.connect(), try await keeper.connect()))
        }
    }

    @Test(arguments: [nil, "50 minutes"])
    func `is the one of a worker's own database where the keeper has none, or one that is too old`(
        keeperAge: String?
    ) async throws {
        try await withKeeper { [self] _, stores, connections in
            if let keeperAge {
                _ = try await SharedToken(store: stores.keeper, masterKeys: Self.masterKeys, signer: signer) { _ in }
                    .current()
                try await age(connections.keeper, by: keeperAge)
            }
            let own = try await SharedToken(store: stores.own, masterKeys: Self.masterKeys, signer: signer) { _ in }
                .current()
            try await age(connections.own, by: "10 minutes")
            let token = tokens(of: signer, in: stores.own, keeper: stores.keeper)
            #expect(try await token.current().text == own.text)
            let kept = try #require(try await connections.keeper.providerToken(of: signer.digest).token)
            #expect(kept.age >= .seconds(600) && kept.age < .seconds(700))
            #expect(token.nextPoll > .now + .seconds(2000) && token.nextPoll < .now + .seconds(2100))

            // A token that is too old itself is not copied to the keeper.
            try await age(connections.own, by: "36 minutes")
            try await age(connections.keeper, by: "36 minutes")
            #expect(try await token.current().text != own.text)
        }
    }

    @Test func `is had from a worker's own database at once while the keeper is away, by twenty keys as by one`()
        async throws
    {
        let away = try DatabaseAddress(
            url: "postgresql://postgres@127.0.0.1:\(try Loopback.freePort())/postgres", environment: [:])
        try await withDatabase { [self] actor, database in
            let stores = [database.address, away].map { address in
                RetryingConnection(ReconnectingConnection(to: address, as: "test", on: actor.loop), loop: actor.loop) {
                    _ in
                }
            }
            _ = try await stores[0].connection()
            var signers = [signer]
            for _ in 1..<20 {
                signers.append(try TokenSigner(key: .makeP256(), teamID: signer.teamID, keyID: signer.keyID))
            }
            let stopwatch = Stopwatch()
            for signer in signers { _ = try await tokens(of: signer, in: stores[0], keeper: stores[1]).current() }
            #expect(stopwatch.quietTime < .seconds(5), "each waited for the keeper")
        }
    }
}
