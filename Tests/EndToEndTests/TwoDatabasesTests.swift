import APNsSimulator
import Foundation
import Glibc
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

extension `Real processes of tenants that move` {
    /// Two servers with twenty tenants each, four workers for both, and campaigns and single sends under way
    /// everywhere.
    @Suite struct `Two databases, four workers and forty tenants` {
        /// One of the tenants. Each has devices, tokens and pushes of its own.
        private struct Tenant: Hashable, Sendable {
            static let all = (0..<40).map(Tenant.init)
            static let deviceCount = 150

            let number: Int

            var name: String { "t\(number)" }
            var app: String { "com.\(name)" }
            var queue: QueueName { QueueName(tenant: name, app: app, environment: .sandbox) }

            private var first: Int { (number + 1) * 100_000 }
            /// The numbers in the tokens of its devices, of its producer's single sends, and of the send while a
            /// database is away.
            var devices: Range<Int> { first..<(first + Self.deviceCount) }
            func single(_ count: Int) -> Int { first + 50_000 + count }
            var singleMeanwhile: Int { first + 90_000 }

            static func token(_ number: Int) -> [UInt8] {
                (0..<32).map { $0 < 24 ? 0 : UInt8(truncatingIfNeeded: number >> (8 * (31 - $0))) }
            }

            /// A send to one token, which can be repeated.
            func send(_ number: Int) -> String {
                let token = Self.token(number).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
                return """
                    select pushq.send('\(queue)', '{"aps":{"alert":"\(name)"}}', tokens => array['\(token.joined())'],
                                      key => 'single-\(number)')
                    """
            }

            /// SQL for the devices, and for a campaign that lasts for a while.
            var begin: String {
                """
                insert into pushq.device (queue_id, token)
                select pushq.queue_id('\(queue)'), decode(repeat('00', 24), 'hex') || int8send(n)
                from generate_series(\(devices.lowerBound), \(devices.upperBound - 1)) n;
                select pushq.start_campaign('\(queue)', 'campaign', '{"aps":{"alert":"\(name)"}}', max_rate => 12)
                """
            }
        }

        /// One of the two databases.
        private struct Place: Sendable {
            let server: PrivatePostgres
            let database: String

            var url: String { server.connectionString(database: database) }

            func psql(_ sql: String) async throws -> String {
                try await server.client("psql", ["-XqAtd", database, "-v", "VERBOSITY=terse", "-c", sql]).run()
                    .trimmingCharacters(in: .whitespacesAndNewlines)
            }
        }

        /// Sends to one tenant after the other, and repeats failed sends, in the other database if the error says so.
        private actor Producer {
            /// The number of committed sends.
            private(set) var sent: [Tenant: Int] = [:]
            private let places: [Place]
            private var atSecond: Set<Tenant>

            init(_ places: [Place], second: [Tenant]) {
                self.places = places
                atSecond = Set(second)
            }

            func run(_ tenants: [Tenant]) async {
                while !Task.isCancelled {
                    for tenant in tenants where !Task.isCancelled { await send(to: tenant) }
                }
            }

            private func send(to tenant: Tenant) async {
                let number = sent[tenant, default: 0]
                while true {
                    do {
                        _ = try await places[atSecond.contains(tenant) ? 1 : 0].psql(
                            tenant.send(tenant.single(number)))
                        sent[tenant] = number + 1
                        return
                    } catch {
                        if "\(error)".contains("has moved to") { atSecond.formSymmetricDifference([tenant]) }
                        try? await Task.sleep(for: .milliseconds(50))
                    }
                }
            }
        }

        /// The number of pushes of its own that each token got, by app, according to the simulator.
        private func arrivals(_ rig: Rig) throws -> [String: [String: Int]] {
            var pushes: [String: [String: Set<String>]] = [:]
            for event in try SimulatorRecord(path: rig.recordFiles[0]).events where event.event == "arrived" {
                pushes[event.topic ?? "", default: [:]][event.tokenDigest ?? "", default: []].insert(event.apnsID ?? "")
            }
            return pushes.mapValues { $0.mapValues(\.count) }
        }

        @Test func `each gets what it sends, while one moves and the other ones' database is killed`() async throws {
            let reaper = try Reaper()
            let server = try await PrivatePostgres.start(reaper: reaper)
            var settings = Rig.Settings()
            settings.devices = 1
            try await Rig.run(on: server, settings) { actor, rig in
                let first = Place(server: server, database: rig.database)
                let second = Place(server: try await PrivatePostgres.start(reaper: rig.reaper), database: "second")
                try await second.server.createDatabase(second.database)
                let made = try await Executable.admin.run(
                    ["migrate", "--database-number", "5"], environment: ["PUSHQ_DATABASE_URL": second.url])
                try #require(made.code == 0, "\(made.errors)")
                let store = ReconnectingConnection(
                    to: try DatabaseAddress(url: second.url, environment: [:]), as: "test", on: actor.loop)
                defer { store.close() }
                try await store.current().runScript(LapsedLease.trigger)
                let (here, there) = (Array(Tenant.all[..<20]), Array(Tenant.all[20...]))
                for (tenants, connection) in [(here, try await rig.session()), (there, try await store.current())] {
                    for tenant in tenants {
                        try await rig.create(tenant.queue, in: connection)
                        try await connection.runScript(tenant.begin)
                    }
                }

                // The second database keeps the provider token, and is the one that dies.
                let list = "\(rig.folder)/databases"
                try "\(second.url)\n\(first.url)\n".write(toFile: list, atomically: true, encoding: .utf8)
                let workers = try (1...4).map { _ in try rig.startWorker(database: "", ["--databases", list]) }
                let producer = Producer([first, second], second: there)
                let producing = [here, there].map { tenants in Task { await producer.run(tenants) } }
                try await rig.waitUntilEnded(300)

                // Under load, a tenant moves from the first database to the second.
                let mover = here[3]
                let moved = try await rig.admin(["tenant", "move", mover.name, "--to", second.url])
                #expect(moved.code == 0, "\(moved.errors)")

                // The moved tenant's new database dies. The tenants of the first go on: what they send now arrives.
                second.server.signal(SIGKILL)
                try await second.server.stop(.immediate)
                let others = here.filter { $0 != mover }
                var roots: [String] = []
                for tenant in others { roots.append(try await first.psql(tenant.send(tenant.singleMeanwhile))) }
                try await wait(
                    for: "a push of each tenant of the first", within: .seconds(60),
                    {
                        try await rig.number(
                            """
                            select count(distinct r.queue_id) from pushq.result r
                            where r.root_id in (\(roots.joined(separator: ","))) and r.delivered = 1
                            """)
                    }
                ) { $0 == others.count }
                try await second.server.start()

                // All campaigns and sends end.
                let unfinished = "select count(*) from pushq.campaign_progress where not finished"
                for place in [first, second] {
                    try await wait(
                        for: "the end of all campaigns", within: .seconds(120), { try await place.psql(unfinished) }
                    ) { $0 == "0" }
                }
                for task in producing { task.cancel() }
                for task in producing { await task.value }
                let sent = await producer.sent
                let expected = Dictionary(
                    uniqueKeysWithValues: Tenant.all.map { tenant in
                        let numbers =
                            Array(tenant.devices) + (0..<sent[tenant, default: 0]).map(tenant.single)
                            + (others.contains(tenant) ? [tenant.singleMeanwhile] : [])
                        return (tenant, numbers.map { RecordDigest.ofToken(Tenant.token($0)) })
                    })
                // The outcomes of each tenant, in the one database that it is in.
                let books = """
                    select n.tenant || ' ' || sum(r.delivered) from pushq.result r
                    join pushq.queue_name n on n.queue_id = r.queue_id
                    group by n.tenant order by n.tenant
                    """
                for (place, tenants) in [(first, others), (second, there + [mover])] {
                    let figures = tenants.map { "\($0.name) \(expected[$0]!.count)" }.sorted()
                    try await eventually("each tenant's outcomes", within: .seconds(60)) {
                        try await place.psql(books).split(separator: "\n").map(String.init).sorted()
                    } until: {
                        $0 == figures
                    }
                }
                for worker in workers { #expect(await worker.drain() == .code(0), "\(worker.log)") }

                // The simulator saw each token of each tenant once, and one provider token.
                let audit = try await rig.audit(beside: [try await store.current()])
                audit.expectWhole()
                let arrived = try arrivals(rig)
                for tenant in Tenant.all {
                    let wanted = Dictionary(uniqueKeysWithValues: expected[tenant]!.map { ($0, 1) })
                    #expect(arrived[tenant.app] == wanted, "\(tenant.name)")
                }
                let counted = try rig.simulator.counted()
                #expect(counted.providerTokens == 1 && counted.refused.isEmpty, "\(counted)")
            }
            await reaper.end()
        }
    }
}
