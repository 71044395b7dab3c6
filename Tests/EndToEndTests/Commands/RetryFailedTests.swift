import PostgresStore
import QueueCore
import TestSupport
import Testing

/// `campaign retry-failed`, and `job retry` for jobs of a campaign. Each campaign has one recipient, which has failed.
@Suite(.timeLimit(.minutes(10))) struct `Sending again to the failed recipients of a campaign` {
    private static let pause = """
        update pushq.campaign set paused_at = now();
        update pushq.fan_out set paused = true
        """

    @Test(arguments: [
        ["campaign", "retry-failed", "KEY"], ["job", "retry", "--campaign", "KEY"], ["job", "retry", "JOB"],
    ])
    func `says that the pushes wait if the campaign is paused`(command: [String]) async throws {
        try await Shop.open { shop in
            try await shop.run("\(Destruction.failedCampaign); \(Self.pause)")
            let job = try await shop.texts("select job_id::text as text from pushq.result")[0]
            let words = command.map { $0 == "KEY" ? "sale" : $0 == "JOB" ? job : $0 }
            let all = words[..<2] + [Shop.queue] + words[2...] + (words.contains(job) ? [] : ["--yes"])
            let ended = try await Executable.admin.run(Array(all), environment: shop.environment)
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(ended.output.contains(/sent again +1\n/), "\(ended.output)")
            let reason = "the campaign is paused. Resume it with: pushq-admin campaign resume \(Shop.queue) sale"
            #expect(ended.output.contains("held up") && ended.output.contains(reason), "\(ended.output)")
        }
    }

    @Test func `has in its JSON why the pushes wait`() async throws {
        try await Shop.open { shop in
            try await shop.run("\(Destruction.failedCampaign); \(Self.pause)")
            let ended = try await shop.admin("campaign", "retry-failed", Shop.queue, "sale", "--yes", "--json")
            #expect(ended.output.contains(#""held_up":"the campaign is paused. Resume it"#), "\(ended.output)")
            let again = try await shop.admin("campaign", "retry-failed", Shop.queue, "sale", "--yes", "--json")
            #expect(again.output.contains(#""sent_again":0"#), "\(again.output)")
            #expect(!again.output.contains("held_up"), "nothing waits for this command: \(again.output)")
        }
    }

    /// A worker has given the job back, because the campaign was paused.
    @Test func `says that those wait whose jobs have not ended, and not that they are lost`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                \(Destruction.failedCampaign); \(Self.pause);
                select pushq.register_device('\(Shop.queue)', 'cd');
                select pushq.make_jobs(c.queue_id, c.id, c.message_id, array[d.id], \(Lane.bulk.rawValue), 'infinity',
                                       now() + interval '1 hour', false, campaign => c.id)
                from pushq.campaign c, pushq.device d where d.token = '\\xcd';
                update pushq.job set outcomes = '\\x80';
                update pushq.fan_out set made = 2
                """)
            let before = try await shop.admin("campaign", "show", Shop.queue, "sale")
            #expect(before.output.contains(/failed +2\n/), "\(before.output)")
            let ended = try await shop.admin("campaign", "retry-failed", Shop.queue, "sale", "--yes")
            #expect(ended.output.contains(/sent again +1\n/), "\(ended.output)")
            #expect(!ended.errors.contains("no longer kept"), "\(ended.errors)")
            let words = "not sent again: 1 failed recipient in jobs that have not ended; repeat this when they have"
            #expect(ended.errors.contains(words), "\(ended.errors)")
        }
    }

    @Test func `does not say that those are lost to whom somebody else sends at the same time`() async throws {
        try await withDatabase { _, database in
            let shop = try await Shop(in: database)
            let other = try await database.connect()
            try await other.runScript(Destruction.failedCampaign)
            try await other.runScript("begin; select pushq.retry_failed_campaign('\(Shop.queue)', 'sale')")
            async let command = shop.admin("campaign", "retry-failed", Shop.queue, "sale", "--yes")
            try await database.waitUntilBlocked("the command waits for the other")
            try await other.runScript("commit")
            let ended = try await command
            #expect(ended.code == 0 && ended.output.contains(/sent again +0\n/), "\(ended)")
            #expect(!ended.errors.contains("no longer kept"), "\(ended.errors)")
        }
    }
}
