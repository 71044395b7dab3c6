import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Imports that give installations new tokens.
@Suite(.timeLimit(.minutes(10))) struct `An import of other tokens for known installations` {
    private static let header = "token,user_key,installation\n"

    private func withQueue(
        devices: Int, _ body: @escaping @Sendable (isolated LoopActor, QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: devices)
            try await body(actor, queue)
        }
    }

    private func limit(_ devices: Int64, _ store: PostgresConnection) async throws {
        var change = TenantChange()
        change.quotas.devices = .limit(devices)
        #expect(try await store.setTenant("acme", to: change))
        try await store.countUsage()
    }

    /// Lines for installations. `generation` distinguishes their tokens.
    private static func lines(_ installations: Range<Int>, generation: String, active: Bool? = nil) -> String {
        let rest = active.map { ",\($0)" } ?? ""
        return installations.map { "\(generation)\($0 + 1000),u\($0),i\($0)\(rest)\n" }.joined()
    }

    private func add(
        _ text: String, _ store: PostgresConnection, reactivates: Bool = false
    ) async throws -> DeviceImportSummary {
        try await store.importDevices(from: .text(text), inQueue: QueueFixture.name, reactivates: reactivates) { _ in }
    }

    @Test func `needs no room in the quota, since it adds no device`() async throws {
        try await withQueue(devices: 4) { _, queue in
            let store = queue.connection
            #expect(try await add(Self.header + Self.lines(0..<400, generation: "aa"), store).new == 400)
            try await limit(410, store)
            #expect(try await store.usage(of: "acme")?.devices?.used == 404)
            let next = try await add(Self.header + Self.lines(0..<100, generation: "bb"), store)
            #expect(next.new == 100 && next.replaced == 100)
            #expect(try await queue.number("select count(*) from pushq.device where active") == 404)
            // Under the quota, there is room for six more beside the replaced tokens.
            let more = Self.lines(100..<200, generation: "bb")
            let refused = await #expect(throws: PostgresError.self) {
                try await add(Self.header + more + Self.lines(500..<507, generation: "bb"), store)
            }
            #expect(refused?.description.contains("it has 404, and this call would add 7") == true, "\(refused as Any)")
            #expect(try await add(Self.header + more + Self.lines(500..<506, generation: "bb"), store).new == 106)
            #expect(try await queue.number("select count(*) from pushq.device where active") == 410)
        }
    }

    @Test func `takes no longer in a queue of which there are no statistics yet, nor does an export of it`()
        async throws
    {
        try await withQueue(devices: 0) { _, queue in
            try await queue.run(
                """
                alter table pushq.device set (autovacuum_enabled = off);
                alter table pushq.profile set (autovacuum_enabled = off)
                """)
            // A nested loop over the tables would take minutes, and the export would exceed its statement timeout.
            let stopwatch = Stopwatch()
            let first = try await add(Self.header + Self.lines(100_000..<120_000, generation: "aa"), queue.connection)
            #expect(first.new == 20_000 && first.profiles == 20_000 && first.replaced == 0)
            let export = try #require(
                try await queue.connection.exportDevices(
                    ofQueue: QueueFixture.name, as: .csv, after: 0, includesInactive: true, limit: 20_000))
            #expect(export.lines.split(separator: "\n").count == 20_000)
            let next = try await add(Self.header + Self.lines(100_000..<120_000, generation: "bb"), queue.connection)
            #expect(next.new == 20_000 && next.replaced == 20_000)
            #expect(stopwatch.quietTime < .seconds(60))
        }
    }

    @Test func `counts what comes back, and not what is inactive from the beginning`() async throws {
        try await withQueue(devices: 4) { _, queue in
            let store = queue.connection
            let header = "token,user_key,installation,active\n"
            try await limit(10, store)
            #expect(
                try await add(header + Self.lines(0..<20, generation: "aa", active: false), store).inactive == 20)
            #expect(try await queue.number("select count(*) from pushq.device where active") == 4)
            let all = header + Self.lines(0..<7, generation: "aa", active: true)
            await #expect(throws: PostgresError.self) { try await add(all, store, reactivates: true) }
            #expect(try await add(all, store).changed == 0)
            let fitting = header + Self.lines(0..<6, generation: "aa", active: true)
            #expect(try await add(fitting, store, reactivates: true).changed == 6)
            #expect(try await queue.number("select count(*) from pushq.device where active") == 10)
        }
    }

    @Test func `keeps those of the file, unless it is known of all when they were seen`() async throws {
        try await withQueue(devices: 1) { _, queue in
            let store = queue.connection
            let dated = "token,user_key,installation,seen_at\n"
            func active(_ user: String) async throws -> [String] {
                try await queue.texts(
                    "select encode(token, 'hex') from pushq.device where active and user_key = '\(user)' order by 1")
            }
            _ = try await add(
                dated + "01,ann,A,2026-02-01T00:00:00Z\n11,bob,B,2026-02-01T00:00:00Z\n21,cid,C,2026-02-01T00:00:00Z\n",
                store)
            // The file has no time, so its token is newer than those imported before.
            #expect(try await add(Self.header + "02,ann,A\n", store).replaced == 1)
            #expect(try await active("ann") == ["02"])
            // The file has an earlier time.
            #expect(try await add(dated + "12,bob,B,2026-01-01T00:00:00Z\n", store).replaced == 1)
            #expect(try await active("bob") == ["11"])
            // A known token that is imported again without a time is in use now.
            try await queue.run(
                """
                insert into pushq.device (queue_id, token, user_key) values (\(queue.id), '\\x22', 'cid');
                insert into pushq.profile (queue_id, device_id, installation, seen_at)
                select queue_id, id, 'C', '2026-01-01Z' from pushq.device where token = '\\x22'
                """)
            #expect(try await add(Self.header + "22,cid,C\n", store).replaced == 1)
            #expect(try await active("cid") == ["22"])
        }
    }

    @Test func `gives them what is known of the older ones of the same user, where they lack it`() async throws {
        try await withQueue(devices: 1) { _, queue in
            let store = queue.connection
            func known(_ token: String) async throws -> [String] {
                try await queue.texts(
                    """
                    select concat_ws(' ', p.locale, p.time_zone, p.app_version, p.tags, p.attributes)
                    from pushq.device d
                    join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
                    where d.token = decode('\(token)', 'hex')
                    """)
            }
            try await queue.run(
                "select pushq.register_device('\(QueueFixture.name)', '32', 'dan', installation => 'D')")
            let said = #"de-AT,Europe/Vienna,4.1,vip,"{""plan"": ""pro""}",2026-01-01T00:00:00Z"#
            let first = ["01,ann,A", "11,bob,B", "21,cid,C", "31,dan,D", "51,gil,G"].map { "\($0),\(said)\n" }.joined()
            let columns = "locale,time_zone,app_version,tags,attributes,first_seen_at"
            #expect(try await add("token,user_key,installation,\(columns)\n\(first)", store).replaced == 1)
            #expect(try await known("32") == ["{} {}"], "its app has said all that there is")
            let next = [
                "02,ann,A,", "12,eve,B,", "22,cid,C,fr", "41,fay,F,it", "42,fay,F,", "52,gil,G,", "53,gil,G,",
            ].map { "\($0)\n" }.joined()
            #expect(try await add("token,user_key,installation,locale\n\(next)", store).replaced == 6)
            #expect(try await known("02") == [#"de-AT Europe/Vienna 4.1 {vip} {"plan": "pro"}"#])
            #expect(try await known("12") == ["{} {}"], "bob's are not eve's")
            #expect(try await known("11") == ["de-AT Europe/Vienna 4.1 {} {}"], "nor those of the token's next user")
            #expect(try await known("22") == [#"fr Europe/Vienna 4.1 {vip} {"plan": "pro"}"#], "its own goes first")
            #expect(try await known("42") == ["it {} {}"], "of the same file")
            let gils = [#"de-AT Europe/Vienna 4.1 {vip} {"plan": "pro"}"#]
            #expect(try await known("53") == gils, "also behind an empty one of the same file")
            let firstSeen = "select count(*) from pushq.profile where first_seen_at = '2026-01-01Z'"
            #expect(try await queue.number("\(firstSeen) and installation in ('A', 'C')") == 2)
        }
    }
}
