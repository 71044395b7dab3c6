import Foundation
import LocalStack
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Reactivating devices by their tokens` {
    private static func token(_ digit: String) -> String { String(repeating: digit, count: 64) }

    /// Devices that APNs called dead an hour ago. Their producer has read that.
    private static func deadDevices(_ digits: [String]) -> String {
        let registrations = digits.map { "select pushq.register_device('\(Shop.queue)', '\(token($0))', '4711');\n" }
        return registrations.joined() + """
            update pushq.device
            set registered_at = now() - interval '1 day', active = false, inactive_since = now() - interval '1 hour',
                inactive_reason = 26;
            insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
            select queue_id, id, inactive_reason, inactive_since, 'deactivated' from pushq.device order by id;
            select pushq.list_feedback(100);
            """
    }

    /// What a producer reads from the beginning: verdicts with the first digit of the token.
    private static func read(in shop: Shop) async throws -> [String] {
        try await shop.run("select pushq.list_feedback(100)")
        return try await shop.texts(
            "select verdict || ' ' || left(token, 1) as text from pushq.feedback_after('\(Shop.queue)')")
    }

    @Test func `tells their producer that their deactivation is undone`() async throws {
        try await Shop.open { shop in
            try await shop.run(Self.deadDevices(["a", "b", "c", "d"]))
            #expect(
                try await Self.read(in: shop) == ["deactivated a", "deactivated b", "deactivated c", "deactivated d"])
            // The user of one has logged out since. Another was registered again, and deactivated by hand. The last one
            // is brought back by its producer.
            try await shop.run(
                """
                select pushq.unregister_device('\(Shop.queue)', '\(Self.token("b"))');
                select pushq.register_device('\(Shop.queue)', '\(Self.token("c"))', '4711');
                select pushq.set_device('\(Shop.queue)', '\(Self.token("c"))', false);
                select pushq.set_device('\(Shop.queue)', '\(Self.token("d"))', true)
                """)
            let tokens = ["a", "b", "c", "d"].map(Self.token)
            let ended = try await Executable.admin.run(
                ["device", "reactivate", Shop.queue] + tokens, environment: shop.environment)
            #expect(ended.output == "reactivated 3 of 4\n", "\(ended.errors)")
            #expect(try await Self.read(in: shop) == ["deactivated c", "deactivated d", "undone a", "undone b"])
            #expect(
                try await shop.list("feedback", "list", Shop.queue).count { $0["verdict"] as? String == "undone" } == 2)
            let again = try await shop.admin("device", "reactivate", Shop.queue, Self.token("a"))
            #expect(again.output == "reactivated 0 of 1\n", "\(again.errors)")
            #expect(try await Self.read(in: shop).count == 4, "nothing is told twice")
        }
    }

    @Test func `changes nothing if one of them is unknown`() async throws {
        try await Shop.open { shop in
            try await shop.run(Self.deadDevices(["a"]))
            let ended = try await shop.admin("device", "reactivate", Shop.queue, Self.token("a"), Self.token("e"))
            #expect(ended.code == 1 && ended.errors.contains("there is no device eeee"), "\(ended.errors)")
            #expect(try await Self.read(in: shop) == ["deactivated a"])
        }
    }
}
