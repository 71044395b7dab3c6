import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// Compares what a claim returns with a simple join, device by device, on random jobs and devices.
@Suite(.timeLimit(.minutes(10))) struct `The tokens that a claim brings` {
    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func `are those of the job's own active devices, whoever else is in their range`(seed: UInt64) async throws {
        try await withDatabase { _, database in
            var random = SeededGenerator(seed: seed)
            let queue = try await QueueFixture(database, devices: 600)
            // Tokens of one length come in another form than others.
            if seed.isMultiple(of: 2) { try await lengthenTokens(of: queue, &random) }
            let tokens = try await queue.tokens()
            for round in 1...12 {
                try await changeDevices(of: queue, &random)
                let campaign = try await queue.startCampaign(key: "all \(round)")
                try await queue.fanOut(campaign)
                var asked: [Int64: Set<[UInt8]>] = [:]
                for _ in 1...6 {
                    let devices = recipients(&random)
                    let chosen = devices.map { tokens[$0 - 1] }
                    asked[try await send(to: chosen, of: queue)] = Set(chosen)
                }
                // Changes between the creation of a job and its claim once led to wrong tokens.
                try await changeDevices(of: queue, &random)
                let devices = try await devices(of: queue)
                let jobs = try await queue.claim(500, lane: .normal) + queue.claim(500)
                #expect(Set(jobs.map(\.rootID)) == Set(asked.keys).union([campaign]))
                for job in jobs {
                    for (ordinal, id) in job.deviceIDs.enumerated() {
                        let device = try #require(devices[id])
                        #expect(job.token(of: ordinal) == (device.isActive ? device.token : nil), "seed \(seed)")
                    }
                }
                for (root, tokens) in asked {
                    let recipients = jobs.filter { $0.rootID == root }.flatMap(\.deviceIDs)
                    #expect(recipients.count == tokens.count)
                    #expect(Set(recipients.compactMap { devices[$0]?.token }) == tokens, "seed \(seed)")
                }
            }
        }
    }

    /// A scan for each device takes three times as long as one for all that are between the first and the last.
    @Test(arguments: [1, 4]) func `are found in one scan of the index if the job's devices are dense`(step: Int)
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3000)
            _ = try await send(to: (0..<300).map { QueueFixture.token(1 + $0 * step) }, of: queue)
            let before = try await scansOfDevices(queue)
            let jobs = try await queue.claim(lane: .normal)
            #expect(jobs.map(\.deviceIDs.count) == [300])
            let scans = try await scansOfDevices(queue) - before
            #expect(1...3 ~= scans, "\(scans)")
        }
    }

    private func scansOfDevices(_ queue: QueueFixture) async throws -> Int {
        try await queue.reportStatistics()
        return try await queue.number("select idx_scan from pg_stat_user_indexes where indexrelname = 'device_pkey'")
    }

    /// The numbers of a random set of devices, dense or sparse.
    private func recipients(_ random: inout SeededGenerator) -> [Int] {
        let first = Int.random(in: 1...600, using: &random)
        let last = Int.random(in: first...600, using: &random)
        let step = Int.random(in: 1...9, using: &random)
        let chosen = (first...last).filter { _ in Int.random(in: 0..<step, using: &random) == 0 }
        return chosen.isEmpty ? [first] : chosen
    }

    /// Deactivates about one device in five, and activates as many.
    private func changeDevices(of queue: QueueFixture, _ random: inout SeededGenerator) async throws {
        let salt = UInt16.random(in: 0...UInt16.max, using: &random)
        try await queue.run(
            """
            update pushq.device
            set active = hashint8(id + \(salt)) % 2 = 0,
                inactive_since = case when hashint8(id + \(salt)) % 2 = 0 then null else now() end
            where hashint8(id * 31 + \(salt)) % 5 < 2
            """)
    }

    /// Makes some tokens longer, by one of two lengths.
    private func lengthenTokens(of queue: QueueFixture, _ random: inout SeededGenerator) async throws {
        let salt = UInt16.random(in: 0...UInt16.max, using: &random)
        try await queue.run(
            """
            update pushq.device set token = token || '\\x0102' where hashint8(id + \(salt)) % 40 = 0;
            update pushq.device set token = token || '\\x03' where hashint8(id * 31 + \(salt)) % 40 = 0
            """)
    }

    private func send(to tokens: [[UInt8]], of queue: QueueFixture) async throws -> Int64 {
        let statement = Statement(
            "send to many", #"select pushq.send('\#(QueueFixture.name)', '{"aps":{"alert":"x"}}', $1::text[])"#)
        let tokens = try tokens.map { try DeviceToken(bytes: $0).hex }
        return try await queue.connection.execute(statement, [.textArray(tokens)]).one().int8("send")
    }

    private func devices(of queue: QueueFixture) async throws -> [Int64: (token: [UInt8], isActive: Bool)] {
        let rows = try await queue.connection.execute(
            Statement("all devices", "select id, token, active from pushq.device"))
        return Dictionary(uniqueKeysWithValues: rows.map { ($0.int8("id"), ($0.bytes("token"), $0.bool("active"))) })
    }
}

extension QueueFixture {
    /// The tokens of all devices, in the order of their ids.
    fileprivate func tokens() async throws -> [[UInt8]] {
        try await connection.execute(Statement("tokens", "select token from pushq.device order by id"))
            .map { $0.bytes("token") }
    }
}
