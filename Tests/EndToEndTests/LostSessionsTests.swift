import Foundation
import PostgresStore
import Synchronization
import TestSupport
import Testing
import Transport

extension `Real processes that send campaigns` {
    /// What a worker sends and cannot record is sent again by the worker that gets its jobs.
    @Suite struct `A worker that loses sessions and gets no new ones` {
        private static let rate = 200

        /// Where a worker's messages to PostgreSQL go, decided by the names of its sessions.
        private final class Path: Sendable {
            private struct State {
                var names: [Int: String] = [:]
                var action = DatabaseProxy.Action.pass
                var isMeant: @Sendable (String) -> Bool = { _ in false }
            }

            private let state = Locked(State())

            func action(for message: DatabaseProxy.Message) -> DatabaseProxy.Action {
                state.withLock { state in
                    // The client's first message contains the program's name.
                    if message.type == nil {
                        state.names[message.connection] = String(decoding: message.bytes, as: UTF8.self)
                    }
                    return state.isMeant(state.names[message.connection] ?? "") ? state.action : .pass
                }
            }

            /// From now on, sessions whose name contains `name` are cut or fall silent, and so do those that follow.
            func spoil(_ name: String, _ action: DatabaseProxy.Action) {
                state.withLock { ($0.action, $0.isMeant) = (action, { $0.contains(name) }) }
            }
        }

        /// Starts a campaign, and spoils sessions of the only worker that sends it.
        /// - Returns: when that was, in microseconds since 1970.
        private static func spoil(
            _ name: String, _ action: DatabaseProxy.Action, _ rig: Rig,
            then body: (_ spoiledAt: Int, WorkerProcess) async throws -> Void
        ) async throws {
            let path = Path()
            let proxy = try await DatabaseProxy(to: rig.postgres) { path.action(for: $0) }
            defer { proxy.close() }
            let worker = try rig.startWorker(database: proxy.connectionString(database: rig.database))
            try await worker.says("started")
            try await rig.startCampaign()
            try await rig.waitUntilEnded(rate)
            path.spoil(name, action)
            try await body(now, worker)
        }

        private static var now: Int { Int(Date.now.timeIntervalSince1970 * 1_000_000) }

        private static func adjust(_ settings: inout Rig.Settings) {
            settings.devices = 3000
            settings.sql = """
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                select tenant_id, id, \(rate), \(rate) from pushq.queue where id = $queue
                """
        }

        private static func arrivals(_ rig: Rig, _ times: Range<Int>) throws -> Int {
            try PushRecord(files: rig.recordFiles).arrivals.count(where: times.contains)
        }

        @Test func `records over another one, and sends nothing twice`() async throws {
            try await withRig(Self.adjust) { rig in
                try await Self.spoil("(leases)", .cut, rig) { _, worker in
                    try await worker.says("store_lost")
                    try rig.startWorker()
                    try await rig.waitUntilFinished()
                }
                let audit = try await rig.audit()
                audit.expectWhole()
                #expect(audit.sent == 3000)
                #expect(audit.repeated == 0)
            }
        }

        @Test func `stops sending when it has lost all`() async throws {
            try await withRig {
                $0.devices = 3000
                $0.lease = .seconds(6)
                // As many pushes as with the limit, which would need permits from PostgreSQL.
                $0.sql = "update pushq.queue set connections = 1 where id = $queue"
                $0.simulatorArguments = ["--streams", "\(Self.rate / 10)"]
                $0.rules = #"{"latency_ms": 100}"#
            } _: { rig in
                try await Self.spoil("pushq work", .cut, rig) { _, worker in
                    try await worker.says("store_lost")
                    let (noticed, stopwatch) = (Self.now, Stopwatch())
                    // Until then, nobody else can get its jobs.
                    try await eventually("its leases to expire", within: .seconds(60)) {
                        try await rig.number("select count(*) from pushq.lease where deadline > clock_timestamp()")
                            == 0
                    }
                    // What was in the worker's and the simulator's sockets when it noticed.
                    let left = Int(300_000 * stopwatch.slowdown)
                    let late = try Self.arrivals(rig, noticed + left..<Int.max)
                    #expect(late == 0, "it went on sending")
                    try rig.startWorker()
                    try await rig.waitUntilFinished()
                }
                let audit = try await rig.audit()
                audit.expectWhole()
                #expect(audit.sent == 3000)
                #expect(audit.repeated <= Self.rate, "at most a second's pushes")
            }
        }

        @Test func `stops sending soon when what it writes gets no answer`() async throws {
            try await withRig {
                Self.adjust(&$0)
                $0.lease = .seconds(15)
            } _: { rig in
                try await Self.spoil("(leases)", .drop, rig) { spoiledAt, worker in
                    let stopwatch = Stopwatch()
                    try await worker.says("store_silent", within: .seconds(60))
                    let (begin, end) = (spoiledAt + Int(3_000_000 * stopwatch.slowdown), Self.now - 1_000_000)
                    let unheard = try Self.arrivals(rig, min(begin, end)..<end)
                    #expect(unheard == 0, "it sent what it could not record")
                    try await rig.waitUntilFinished()
                }
                let audit = try await rig.audit()
                audit.expectWhole()
                #expect(audit.sent == 3000)
                #expect(audit.repeated == 0, "no lease has expired")
            }
        }
    }
}
