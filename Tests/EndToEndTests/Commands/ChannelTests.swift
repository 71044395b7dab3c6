import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing

/// Tests what operators and producers do with channels. A simulator takes Apple's place.
@Suite(.timeLimit(.minutes(10))) struct `The channel commands` {
    /// The output of `pushq simulate --json` when it is ready.
    private struct Ready: Decodable {
        let address: String
        let management: String
        let ca: String
        let signingKey: String
        let team: String

        enum CodingKeys: String, CodingKey {
            case address, management, ca
            case signingKey = "signing_key"
            case team = "team_id"
        }
    }

    private func startSimulator(_ shop: Shop, limit: Int) async throws -> (process: ChildProcess, ready: Ready) {
        let process = try Executable.pushq.start(
            [
                "simulate", "--json", "--port", "0", "--management-port", "0", "--channels", "\(limit)", "--folder",
                shop.folder.path("apns"),
            ], environment: shop.environment, output: shop.folder.path("simulator.out"),
            errors: shop.folder.path("simulator.log"))
        let said = try await eventually("the simulator is ready") {
            shop.folder.read("simulator.out")
        } until: {
            $0.hasSuffix("\n")
        }
        return (process, try JSONDecoder().decode(Ready.self, from: Data(said.utf8)))
    }

    /// Runs a test with a shop whose app has a credential, and a simulator that allows the app two channels.
    private func withSimulator(
        _ body: @Sendable @escaping (_ shop: Shop, _ ready: Ready, _ apple: [String]) async throws -> Void
    ) async throws {
        try await Shop.open { shop in
            let (process, ready) = try await startSimulator(shop, limit: 2)
            let added = try await shop.admin(
                "credential", "add", "acme", "main", "--p8", ready.signingKey, "--team-id", ready.team)
            #expect(added.code == 0, "\(added.errors)")
            let apple = ["--management", ready.management, "--ca", ready.ca]
            try await body(shop, ready, apple)
            process.signal(SIGTERM)
            #expect(await process.waitForExit(within: .seconds(60)) == .code(0))
        }
    }

    private func admin(_ shop: Shop, _ arguments: [String]) async throws -> Executable.Ended {
        try await Executable.admin.run(arguments, environment: shop.environment)
    }

    private func create(_ shop: Shop, _ apple: [String]) async throws -> String {
        let made = try await admin(shop, ["channel", "create", Shop.queue, "--json"] + apple)
        #expect(made.code == 0, "\(made.errors)")
        let facts = try JSONSerialization.jsonObject(with: Data(made.output.utf8)) as? [String: Any]
        return try #require(facts?["channel"] as? String)
    }

    /// The channels that `channel list` shows, with their states.
    private func states(_ shop: Shop, _ arguments: [String]) async throws -> [String: String] {
        let listed = try await admin(shop, ["channel", "list", Shop.queue, "--json"] + arguments)
        #expect(listed.code == 0, "\(listed.errors)")
        let rows = try JSONSerialization.jsonObject(with: Data(listed.output.utf8)) as? [[String: Any]] ?? []
        return Dictionary(
            uniqueKeysWithValues: rows.map { ($0["channel"] as? String ?? "", $0["state"] as? String ?? "") })
    }

    @Test func `are created, broadcast to, listed, shown and deleted`() async throws {
        try await withSimulator { shop, ready, apple in
            let worker = try Executable.pushq.start(
                ["work", "--gateway", ready.address, "--ca", ready.ca], environment: shop.environment,
                output: shop.folder.path("worker.out"), errors: shop.folder.path("worker.log"))
            let channel = try await create(shop, apple)
            let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
            let sent = try await shop.pushq(
                "broadcast", Shop.queue, "--channel", channel, "--payload", "-", "--wait", input: update)
            #expect(sent.code == 0, "\(sent.errors)")
            #expect(sent.output.contains(/delivered +1\n/), "\(sent.output)")
            let kept = try await shop.pushq(
                "broadcast", Shop.queue, "--channel", channel, "--payload", "-", "--expiration", "1h", input: update)
            expectFailure(kept, code: 1, saying: "does not go with a channel that stores nothing: use 0")
            let start = try await shop.pushq(
                "broadcast", Shop.queue, "--channel", channel, "--payload", "-",
                input: #"{"aps":{"timestamp":1,"event":"start"}}"#)
            expectFailure(start, code: 1, saying: "standard input:1:31: aps.event is start")

            let shown = try await admin(shop, ["channel", "show", Shop.queue, channel] + apple)
            #expect(shown.output.contains("active") && shown.output.contains("none"), "\(shown.output)")
            let asked = try await admin(shop, ["channel", "delete", Shop.queue, channel] + apple)
            expectFailure(asked, code: 1, saying: "its subscribers get nothing more; nothing was changed: pass --yes")
            #expect(try await self.states(shop, apple) == [channel: "active"])
            let deleted = try await admin(shop, ["channel", "delete", Shop.queue, channel, "--yes"] + apple)
            #expect(deleted.output == "deleted channel \(channel)\n", "\(deleted.errors)")
            let states = try await states(shop, apple)
            #expect(states == [channel: "retired"])
            let again = try await shop.pushq(
                "broadcast", Shop.queue, "--channel", channel, "--payload", "-", input: update)
            expectFailure(again, code: 1, saying: "was retired", "pushq-admin channel create")

            worker.signal(SIGTERM)
            #expect(await worker.waitForExit(within: .seconds(60)) == .code(0))
        }
    }

    @Test func `are made known to the queue that knows them not, and retired where Apple does not know them`()
        async throws
    {
        try await withSimulator { shop, _, apple in
            let mine = try await create(shop, apple)
            // One channel was created elsewhere, and one was deleted elsewhere.
            try await shop.run("update pushq.channel set channel = 'Z29uZQ=='")
            let unknown = try await states(shop, apple)
            #expect(unknown == [mine: "unknown here", "Z29uZQ==": "unknown to Apple"])
            let stored = try await states(shop, ["--stored"])
            #expect(stored == ["Z29uZQ==": "active"])
            let reconciled = try await states(shop, ["--reconcile"] + apple)
            #expect(reconciled == [mine: "active", "Z29uZQ==": "retired"])
        }
    }

    @Test func `are made known also to a queue that has as many as it can have, all of which Apple does not know`()
        async throws
    {
        try await withSimulator { shop, _, apple in
            let mine = try await create(shop, apple)
            try await shop.run(
                """
                with gone as (
                  delete from pushq.channel returning queue_id)
                insert into pushq.channel (queue_id, channel, policy)
                select g.queue_id, 'gone' || n, 0 from gone g, generate_series(1, 10000) n
                """)
            let active = try await states(shop, ["--reconcile", "--state", "active"] + apple)
            #expect(active == [mine: "active"])
        }
    }

    @Test func `become active again when Apple lists them, unless somebody has deleted them`() async throws {
        try await withSimulator { shop, _, apple in
            let (known, deleted) = (try await create(shop, apple), try await create(shop, apple))
            // Apple lists both. APNs has refused a broadcast to one of them before.
            let reason = Reason.named("ChannelNotRegistered").code
            try await shop.run(
                """
                update pushq.channel
                set retired_at = now(), retired_reason = case when channel = '\(known)' then \(reason) end
                """)
            let refused = try await states(shop, ["--reconcile"] + apple)
            #expect(refused == [known: "active", deleted: "retired"])
            // Then Apple does not list it for a while.
            try await shop.run("update pushq.channel set channel = 'Z29uZQ==' where channel = '\(known)'")
            let unlisted = try await states(shop, ["--reconcile"] + apple)
            #expect(unlisted == [known: "active", "Z29uZQ==": "retired", deleted: "retired"])
            try await shop.run(
                """
                delete from pushq.channel where channel = '\(known)';
                update pushq.channel set channel = '\(known)' where channel = 'Z29uZQ=='
                """)
            let listed = try await states(shop, ["--reconcile"] + apple)
            #expect(listed == [known: "active", deleted: "retired"])
        }
    }

    @Test func `are no more than Apple allows, which is said`() async throws {
        try await withSimulator { shop, _, apple in
            for _ in 1...2 { _ = try await create(shop, apple) }
            let third = try await admin(shop, ["channel", "create", Shop.queue] + apple)
            expectFailure(third, code: 1, saying: "CannotCreateChannelConfig", "delete those not in use")
        }
    }

    @Test func `cannot be asked for without a credential or a way to Apple`() async throws {
        try await Shop.open { shop in
            let bare = try await shop.admin("channel", "list", Shop.queue)
            expectFailure(bare, code: 1, saying: "has no credential", "--credential NAME", "--stored")
            let both = try await shop.admin("channel", "list", Shop.queue, "--stored", "--reconcile")
            expectFailure(both, code: 2, saying: "cannot be used together")
            let channel = try await shop.admin("channel", "show", Shop.queue, "a b")
            expectFailure(channel, code: 2, saying: "CHANNEL 'a b' is not a channel ID")
            let unknown = try await shop.pushq(
                "broadcast", Shop.queue, "--channel", "YQ==", "--payload", "-",
                input: #"{"aps":{"timestamp":1,"event":"end"}}"#)
            expectFailure(unknown, code: 1, saying: "there is no channel “YQ==”", "pushq-admin channel list")
        }
    }
}
