import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A campaign to users` {
    private static let payload = #"{"aps":{"alert":"hello"}}"#

    private func register(_ shop: Shop) async throws {
        try await shop.run(
            """
            select pushq.register_device('\(Shop.queue)', 'a1', 'anna'); select pushq.register_device('\(Shop.queue)', 'b1', 'bert')
            """)
    }

    @Test func `takes them from a file or from standard input, and shows how many have no device`() async throws {
        try await Shop.open { shop in
            try await register(shop)
            let payload = try shop.folder.write(Self.payload, to: "payload.json")
            let start = ["campaign", Shop.queue, "--key", "sale", "--payload", payload]
            let users = try shop.folder.write("plan,user_key\npro,anna\nfree,nobody\npro,anna\n", to: "users.csv")
            let dry = try await Executable.pushq.run(
                start + ["--users", users, "--dry-run"], environment: shop.environment)
            #expect(dry.output.contains(/users +2\nusers without device +1\nrecipients +1\n/), "\(dry.output)")
            #expect(try await shop.texts("select key as text from pushq.campaign") == [])

            let first = try await Executable.pushq.run(start + ["--users", users], environment: shop.environment)
            #expect(first.code == 0, "\(first.errors)")
            #expect(first.output.contains(/users +2\nusers without device +1\n/), "\(first.output)")
            let again = try await Executable.pushq.run(
                start + ["--users", "-"], environment: shop.environment, input: "nobody\nanna\n")
            #expect(again.code == 0, "\(again.errors)")
            #expect(again.output == first.output, "the same users are the same campaign")
            expectFailure(
                try await Executable.pushq.run(
                    start + ["--users", "-"], environment: shop.environment, input: "bert\n"),
                code: 1, saying: "key “sale” was used for another campaign")
        }
    }

    @Test func `is told what is wrong with the file`() async throws {
        try await Shop.open { shop in
            let payload = try shop.folder.write(Self.payload, to: "payload.json")
            let start = ["campaign", Shop.queue, "--key", "sale", "--payload", payload, "--users", "-"]
            func run(_ words: [String], _ input: String) async throws -> Executable.Ended {
                try await Executable.pushq.run(words, environment: shop.environment, input: input)
            }
            expectFailure(
                try await run(start, "userkey\nanna\n"), code: 1,
                saying: "standard input:1: there is no column 'user_key'")
            expectFailure(try await run(start, "\n"), code: 1, saying: "standard input has no users")
            expectFailure(
                try await run(start + ["--tokens", "tokens.csv"], ""), code: 2,
                saying: "--tokens and --users cannot be used together")
            #expect(try await shop.texts("select key as text from pushq.campaign") == [])
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A send to users` {
    @Test func `goes to the devices of each, and a repetition may name them in another order`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                select pushq.register_device('\(Shop.queue)', token, left(token, 1)) from unnest('{a1,b1,a2,c1}'::text[]) token
                """)
            let send = ["send", Shop.queue, "--alert", "hello", "--key", "k"]
            let first = try await Executable.pushq.run(
                send + ["--user", "a", "--user", "nobody", "--user", "b"], environment: shop.environment)
            #expect(first.code == 0, "\(first.errors)")
            #expect(first.output.contains(/recipients +3\n/), "\(first.output)")
            let again = try await Executable.pushq.run(
                send + ["--user", "b", "--user", "a", "--user", "nobody"], environment: shop.environment)
            #expect(again.output == first.output, "\(again.errors)")
            expectFailure(
                try await Executable.pushq.run(send + ["--user", "a"], environment: shop.environment), code: 1,
                saying: "key “k” was used for another send")
        }
    }
}
