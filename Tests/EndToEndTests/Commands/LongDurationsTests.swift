import TestSupport
import Testing

/// A duration that no clock or database can hold must be refused, and must not end a command by a trap.
@Suite(.timeLimit(.minutes(10))) struct `Long durations on a command line` {
    @Test func `are refused by every option that takes a duration`() async throws {
        let options = try await Executable.options(taking: "DURATION")
        #expect(options.contains { $0 == ("pushq-admin webhook set", "--former-for") }, "the options are found")
        for (command, option) in options {
            let words = command.split(separator: " ").map(String.init)
            let executable = words[0] == "pushq" ? Executable.pushq : .admin
            for duration in ["3651d", "999999999999d"] {
                let ended = try await executable.run(words.dropFirst() + [option, duration])
                expectFailure(
                    ended, code: 2, saying: "\(option) '\(duration)' is longer than 3650d", "Try: \(command) --help")
            }
        }
    }

    @Test func `are refused where the option allows less`() async throws {
        try await Shop.open { shop in
            let payload = try shop.folder.write(#"{"aps":{"alert":"hello"}}"#, to: "payload.json")
            let toAll = ["--payload", payload, "--audience", "all"]
            for words in [
                ["campaign", Shop.queue, "--key", "long"] + toAll,
                ["schedule", "add", Shop.queue, "long", "--cron", "@daily"] + toAll,
            ] {
                expectFailure(
                    try await Executable.pushq.run(
                        words + ["--local-time", "09:00", "--catch-up", "25h"], environment: shop.environment),
                    code: 2, saying: "--catch-up 25h is more than 1d")
            }
            expectFailure(
                try await shop.admin("webhook", "set", "acme", "--new-secret", "--former-for", "91d"), code: 2,
                saying: "--former-for 91d is more than 90d")
        }
    }

    /// 3650 days are more milliseconds than PostgreSQL's time limits and poll(2) hold.
    @Test func `end no command by a signal, if they are allowed`() async throws {
        try await Shop.open { shop in
            let payload = try shop.folder.write(#"{"aps":{"alert":"hello"}}"#, to: "payload.json")
            let toAll = ["--payload", payload, "--audience", "all"]
            for words in [
                ["send", Shop.queue, "--payload", payload, "--token", "abcd", "--expiration", "3650d"],
                ["campaign", Shop.queue, "--key", "long", "--expiration", "3650d"] + toAll,
                ["schedule", "add", Shop.queue, "long", "--cron", "@daily", "--send-within", "3650d"] + toAll,
                ["work", "--lease", "3650d"],
            ] {
                let ended = try await Executable.pushq.run(words, environment: shop.environment)
                #expect([0, 1, 2].contains(ended.code), "\(words) ended with \(ended)")
            }
            for words in [
                ["queue", "set", Shop.queue, "--feedback-every", "3650d"],
                ["queue", "set", Shop.queue, "--quiet-hours", "22:00-08:00", "--quiet-release", "3650d"],
                ["top", "--once", "--every", "3650d"],
            ] {
                let ended = try await Executable.admin.run(words, environment: shop.environment)
                #expect([0, 1, 2].contains(ended.code), "\(words) ended with \(ended)")
            }
        }
    }
}
