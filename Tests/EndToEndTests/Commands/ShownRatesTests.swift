import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A rate that is shown` {
    @Test(arguments: [
        ("0.0001", "0.0001"), ("0.0333", "0.0333"), ("0.3333", "0.333"), ("0.00033", "0.00033"), ("0.5", "0.500"),
        ("2.5", "2.500"),
        ("1500", "1500"),
    ])
    func `has as many decimal places as it needs to be right`(rate: String, shown: String) async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                select pushq.start_campaign('\(Shop.queue)', 'k', '{"aps":{"alert":"x"}}', max_rate => \(rate))
                """)
            let ended = try await shop.admin("campaign", "show", Shop.queue, "k", "--json")
            #expect(ended.output.contains("\"max_rate\":\(shown),"), "\(ended.output)")
        }
    }

    @Test func `is not rounded to none where a queue's limit is one push a minute`() async throws {
        try await Shop.open { shop in
            #expect(try await shop.admin("queue", "set", Shop.queue, "--rate", "1/min").code == 0)
            let ended = try await shop.admin("top", "--once", "--json")
            #expect(ended.output.contains("\"limit_per_second\":0.0167,"), "\(ended.output)")
        }
    }
}
