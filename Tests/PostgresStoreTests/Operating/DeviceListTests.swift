import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

@Suite struct `A list of active devices` {
    private let queue = QueueName(tenant: "acme", app: "com.acme.shop", environment: .production)

    /// Installations get newer tokens, each in a transaction of its own, and the older ones become inactive.
    @Test(arguments: [(kind: nil, filter: "tag 'a'"), (kind: "alert", filter: nil)] as [(String?, String?)])
    func `has none that became inactive while it was searched`(kind: String?, filter: String?)
        async throws
    {
        try await withDatabase { [queue] _, database in
            let (store, app) = (try await database.connect(), try await database.connect())
            _ = try await store.createTenant("acme")
            _ = try await store.createApp("com.acme.shop", of: "acme")
            _ = try await store.createQueue(queue)
            func register(_ round: ClosedRange<Int>) -> String {
                """
                do $$
                begin
                  for round in \(round.lowerBound)..\(round.upperBound) loop
                    for i in 1..500 loop
                      perform pushq.register_device(
                        '\(queue)', encode(int8send(round * 1000 + i), 'hex'), 'u' || i, installation => 'i' || i,
                        tags => array['a']);
                      if round > 0 then
                        commit;
                      end if;
                    end loop;
                  end loop;
                end $$
                """
            }
            try await app.runScript(register(0...0))
            var isOver = false
            database.loop.startTask {
                do { try await app.runScript(register(1...2), within: .seconds(60)) } catch { Issue.record(error) }
                isOver = true
            }
            var (lists, inactive) = (0, 0)
            while !isOver {
                let devices = try await store.devices(
                    inQueue: queue, after: 0, userKey: nil, kind: kind, filter: filter, includesInactive: false,
                    limit: 10_000)
                lists += 1
                inactive += devices.count { !$0.isActive }
            }
            #expect(inactive == 0, "in \(lists) lists")
        }
    }

    @Test(arguments: ["filter => 'locale is missing'", "of_kind => 'alert'", "filter => null"])
    func `may have any number of rows, and null means all`(selection: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            for (most, count) in [("2", 2), ("3000000000", 3), ("9223372036854775807", 3), ("null", 3)] {
                let devices = "pushq.show_devices('\(QueueFixture.name)', 0, null, false, \(most), \(selection))"
                #expect(try await queue.number("select count(*) from \(devices)") == count, "\(most)")
            }
        }
    }
}
