import LocalStack
import TestSupport
import Testing

/// An administrator may give all sessions of a database another isolation level than PostgreSQL's default.
@Suite(.timeLimit(.minutes(5))) struct `Another isolation level than read committed` {
    @Test(arguments: ["repeatable read", "serializable"])
    func `keeps no command from what has to see all that others have committed`(_ level: String) async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                do $$ begin
                  execute format('alter database %I set default_transaction_isolation = %L', current_database(),
                                 '\(level)');
                end $$;
                select pushq.register_device('\(Shop.queue)', 'abcd', 'anna');
                select pushq.save_audience('\(Shop.queue)', 'vips', 'tag ''vip''');
                select pushq.start_campaign('\(Shop.queue)', 'c', '{"aps":{"alert":"x"}}')
                """)
            for words in [
                ["campaign", "pause", Shop.queue, "c"], ["campaign", "resume", Shop.queue, "c"],
                ["campaign", "cancel", Shop.queue, "c", "--yes"], ["audience", "remove", Shop.queue, "vips", "--yes"],
                ["device", "forget", Shop.queue, "abcd", "--yes"],
                ["device", "forget", Shop.queue, "--user", "anna", "--yes"],
            ] {
                let ended = try await Executable.admin.run(words, environment: shop.environment)
                #expect(ended.code == 0, "\(ended.errors)")
            }
        }
    }
}
