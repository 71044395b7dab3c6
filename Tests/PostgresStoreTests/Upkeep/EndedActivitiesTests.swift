import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Update tokens of Live Activities` {
    @Test func `are deleted a month after their registration, and no other devices are`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let name = "'\(QueueFixture.name)'"
            let update = #"'{"aps":{"timestamp":1,"event":"update","content-state":{}}}'"#
            let kinds = ["aa": "liveactivity", "bb": "liveactivity", "cc": "liveactivity", "dd": "liveactivity-start"]
            for (token, kind) in kinds {
                try await queue.run(
                    """
                    select pushq.register_device(\(name), '\(token)', 'ann', installation => 'i', kind => '\(kind)',
                                                 activity_type => 'Match', activity => '\(token)')
                    """)
            }
            // `bb` is a token that the app has registered again since. Of `cc`, a producer may still read a report.
            try await queue.run(
                """
                select pushq.register_device(\(name), 'ee', 'ann', installation => 'i');
                select pushq.send(\(name), \(update), array['aa'], push_type => 'liveactivity');
                update pushq.device set registered_at = now() - interval '31 days' where token <> decode('bb', 'hex');
                update pushq.device
                set active = false, inactive_since = now() - interval '1 day'
                where token = decode('cc', 'hex')
                """)
            let left = """
                select string_agg(encode(d.token, 'hex'), ' ' order by d.token)
                from pushq.device d join pushq.profile p on p.queue_id = d.queue_id and p.device_id = d.id
                """
            let producer = try await database.connect()
            try await producer.runScript(
                "begin; select from pushq.device where token = decode('aa', 'hex') for no key update")
            try await queue.worker.forget()
            #expect(try await queue.texts(left) == ["aa bb cc dd ee"], "a producer has locked it")
            try await producer.runScript("rollback")
            try await queue.worker.forget()
            #expect(try await queue.texts(left) == ["bb cc dd ee"])
            #expect(try await queue.number("select count(*) from pushq.profile") == 4)
            let claimed = try await queue.claim(lane: .normal)
            #expect(claimed.map(\.activeIDs.count) == [0])

            try await queue.run("update pushq.device set inactive_since = now() - interval '31 days' where not active")
            try await queue.run("update pushq.tenant set feedback_days = 60")
            try await queue.worker.forget()
            #expect(try await queue.texts(left) == ["bb cc dd ee"])
            try await queue.run("update pushq.tenant set feedback_days = 5")
            try await queue.worker.forget()
            #expect(try await queue.texts(left) == ["bb dd ee"])
        }
    }
}
