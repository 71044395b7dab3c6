import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A campaign whose time has passed` {
    private static let name = QueueFixture.name

    private func resume(_ queue: QueueFixture, sendBy: Date? = nil) async throws -> Bool {
        try await queue.connection.order(.resume(sendBy: sendBy), campaign: "k", ofQueue: Self.name)
    }

    private func pausedCampaign(_ database: TestDatabase, options: String = "") async throws -> QueueFixture {
        let queue = try await QueueFixture(database, devices: 3)
        try await queue.fanOut(try await queue.startCampaign(options: options))
        _ = try await queue.connection.order(.pause, campaign: "k", ofQueue: Self.name)
        return queue
    }

    @Test func `while it was paused is not resumed without a new one`() async throws {
        try await withDatabase { _, database in
            let queue = try await pausedCampaign(database)
            for table in ["fan_out", "job"] {
                try await queue.run("update pushq.\(table) set send_by = now() - interval '1 second'")
            }
            await #expect {
                try await resume(queue)
            } throws: { error in
                "\(error)".contains("the time to send campaign “k” ended at")
            }
            #expect(try await queue.connection.campaign("k", ofQueue: Self.name)?.state == "paused")
            #expect(try await resume(queue, sendBy: .now + 3600))
            let job = try #require(try await queue.claim().first)
            #expect(job.sendWithin > .seconds(3000))
        }
    }

    @Test func `is not resumed when its message has expired, whatever its new time`() async throws {
        try await withDatabase { _, database in
            let queue = try await pausedCampaign(database, options: ", expiration => 4102444800")
            try await queue.run("update pushq.message set expiration = 1000")
            await #expect {
                try await resume(queue, sendBy: .now + 3600)
            } throws: { error in
                "\(error)".contains("the message of campaign “k” expired")
            }
        }
    }

    @Test(arguments: ["resume", "cancel"])
    func `is not ordered about with a snapshot from before its jobs were set aside`(order: String) async throws {
        try await withDatabase { _, database in
            let queue = try await pausedCampaign(database)
            await #expect {
                try await queue.run(
                    "begin isolation level repeatable read; select pushq.\(order)_campaign('\(Self.name)', 'k')")
            } throws: { error in
                "\(error)".contains("isolation level repeatable read")
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A key of what was cancelled` {
    private static let name = QueueFixture.name

    @Test func `is refused for a campaign, and is a warning for a send`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 3)
            _ = try await queue.startCampaign()
            _ = try await queue.connection.order(.cancel, campaign: "k", ofQueue: Self.name)
            await #expect {
                try await queue.startCampaign()
            } throws: { error in
                "\(error)".contains("campaign “k” was cancelled")
            }
            let send = "select pushq.send('\(Self.name)', '{\"aps\":{\"alert\":\"x\"}}', array['ab'], key => 'k')"
            let root = Int64(try await queue.number(send))
            _ = try await queue.connection.cancelSend(root, inQueue: Self.name)
            #expect(Int64(try await queue.number(send)) == root, "its transaction goes on")
            #expect(try await queue.connection.progress(ofRoot: root, inQueue: Self.name)?.isCancelled == true)
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `An expiration before the start` {
    @Test(arguments: ["send", "start_campaign"])
    func `is refused, since nothing could be sent`(function: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            let hours = { (count: Int) in "(extract(epoch from now()) + 3600 * \(count))::bigint" }
            let call = { (expiration: Int) in
                function == "send"
                    ? "send('\(QueueFixture.name)', '{\"aps\":{\"alert\":\"x\"}}', array['ab'], run_at => now() + interval '2 hours', expiration => \(hours(expiration)))"
                    : "start_campaign('\(QueueFixture.name)', 'k', '{\"aps\":{\"alert\":\"x\"}}', start_at => now() + interval '2 hours', expiration => \(hours(expiration)))"
            }
            await #expect {
                try await queue.run("select pushq.\(call(1))")
            } throws: { error in
                "\(error)".contains("is not after \(function == "send" ? "run_at" : "start_at")")
            }
            try await queue.run("select pushq.\(call(3))")
        }
    }
}
