import Foundation
import LocalStack
import PostgresStore
import QueueCore
import Transport

/// Measures a campaign for a file of very many tokens: the time until the campaign is started, the memory that the
/// server's process takes for it, and the length of its longest transaction. Nothing is sent.
enum TokenLists {
    private static let queue = QueueName(tenant: "list", app: "com.list", environment: .production)

    static func measure(tokens: Int) async throws {
        let stack = try await BenchStack(latency: .milliseconds(5))
        try await stack.makeQueue(queue, devices: 0)
        for (round, what) in ["new", "known"].enumerated() {
            let watch = Task { try await watchBackend(of: stack) }
            let (cpu, wal, start) = (stack.postgres.backendCPU(), try await walBytes(in: stack), ContinuousClock.now)
            try await stack.withStore { store in
                _ = try await store.startCampaign(
                    CampaignDraft(
                        MessageDraft(payload: #"{"aps":{"alert":"x"}}"#), key: "\(round)", inQueue: queue),
                    toDevicesIn: file(of: tokens))
            }
            let seconds = start.duration(to: .now) / .seconds(1)
            watch.cancel()
            let seen = try await watch.value
            let bytes = Double(try await walBytes(in: stack) - wal) / Double(tokens)
            let microseconds = (stack.postgres.backendCPU() - cpu) / .microseconds(1) / Double(tokens)
            print(
                """
                \(tokens) \(what) tokens: \(Int(seconds)) s, the longest transaction \(seen.maximumMilliseconds) ms, \
                \(seen.megabytes) MB of the backend's own memory at the peak, \
                \(microseconds.formatted(.number.precision(.fractionLength(1)))) µs of PostgreSQL's CPU and \(Int(bytes)) bytes of \
                WAL a token
                """)
        }
        await stack.end()
    }

    /// Returns tokens of 32 bytes that look random, in pieces of a thousand lines.
    private static func file(of count: Int) -> DeviceFile {
        let next = Locked(0)
        return DeviceFile(name: "tokens") {
            let start = next.withLock { value in
                defer { value += 1000 }
                return value
            }
            guard start < count else { return nil }
            var text: [UInt8] = []
            text.reserveCapacity(65_000)
            for number in start..<min(start + 1000, count) {
                var state = UInt64(number) &* 0x9e37_79b9_7f4a_7c15
                for _ in 0..<4 {
                    state = (state ^ state >> 30) &* 0xbf58_476d_1ce4_e5b9 &+ UInt64(number)
                    state ^= state >> 27
                    for shift in stride(from: 60, through: 0, by: -4) {
                        text.append(digits[Int(state >> UInt64(shift) & 15)])
                    }
                }
                text.append(UInt8(ascii: "\n"))
            }
            return text
        }
    }

    private static let digits = Array("0123456789abcdef".utf8)

    private static func walBytes(in stack: BenchStack) async throws -> Int64 {
        let bytes = Locked<Int64>(0)
        try await stack.withStore { store in
            let rows = try await store.execute(
                Statement("wal", "select (pg_current_wal_insert_lsn() - '0/0')::int8 as bytes"))
            bytes.withLock { $0 = rows[0].int8("bytes") }
        }
        return bytes.withLock { $0 }
    }

    /// Observes the other session every 20 ms, until it is cancelled.
    private static func watchBackend(of stack: BenchStack) async throws -> (megabytes: Int, maximumMilliseconds: Int) {
        let seen = Locked((kilobytes: 0, milliseconds: 0))
        try await stack.withStore { store in
            let session = Statement(
                "session",
                """
                select pid::int8, coalesce((extract(epoch from clock_timestamp() - xact_start) * 1000)::int8, 0) as milliseconds
                from pg_stat_activity
                where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
                """)
            while !Task.isCancelled {
                for row in try await store.execute(session) {
                    let status = (try? String(contentsOfFile: "/proc/\(row.int8("pid"))/status", encoding: .utf8)) ?? ""
                    let line = status.split(separator: "\n").first { $0.hasPrefix("RssAnon") } ?? ""
                    let kilobytes = Int(line.filter(\.isNumber)) ?? 0
                    let milliseconds = Int(row.int8("milliseconds"))
                    seen.withLock { $0 = (max($0.kilobytes, kilobytes), max($0.milliseconds, milliseconds)) }
                }
                try? await Task.sleep(for: .milliseconds(20))
            }
        }
        return seen.withLock { ($0.kilobytes / 1024, $0.milliseconds) }
    }
}
