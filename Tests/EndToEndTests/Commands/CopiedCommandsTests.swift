import Cryptography
import Foundation
import TestSupport
import Testing

/// What a tenant has named is pasted into a shell by an operator.
@Suite(.timeLimit(.minutes(5))) struct `A command that is printed to be copied` {
    private static let name = #"my "sale" $(id); it's"#
    private static let quoted = #"'my "sale" $(id); it'\''s'"#

    @Test func `quotes the key of a campaign, whoever chose it`() async throws {
        try await Shop.open { shop in
            let payload = try shop.folder.write(#"{"aps":{"alert":"x"}}"#, to: "payload.json")
            let words = ["campaign", Shop.queue, "--key", Self.name, "--payload", payload, "--audience", "all"]
            try await shop.run("select pushq.register_device('\(Shop.queue)', '00ff')")
            #expect(try await Executable.pushq.run(words, environment: shop.environment).code == 0)
            #expect(try await shop.admin("campaign", "pause", Shop.queue, Self.name).code == 0)
            let command = "Resume it with: pushq-admin campaign resume \(Shop.queue) \(Self.quoted)"
            let shown = try await shop.admin("campaign", "show", Shop.queue, Self.name).output
            #expect(shown.contains("\(command)\n"), "\(shown)")
            let waited = try await Executable.pushq.run(
                words + ["--wait", "--timeout", "3500ms"], environment: shop.environment
            ).errors
            #expect(waited.contains("\(command)\n"), "\(waited)")
        }
    }

    /// A campaign must be stopped soon, by whoever reads the command.
    @Test func `takes a key that begins with a hyphen for no option`() async throws {
        try await Shop.open { shop in
            let payload = try shop.folder.write(#"{"aps":{"alert":"x"}}"#, to: "payload.json")
            let key = "-20%-friday"
            let words = ["campaign", Shop.queue, "--key", key, "--payload", payload, "--audience", "all"]
            try await shop.run("select pushq.register_device('\(Shop.queue)', '00ff')")
            #expect(try await Executable.pushq.run(words, environment: shop.environment).code == 0)
            #expect(try await shop.admin("campaign", "pause", Shop.queue, "--", key).code == 0)
            let remark = try await Executable.pushq.run(
                words + ["--max-rate", "5"], environment: shop.environment
            ).errors
            let waited = try await Executable.pushq.run(
                words + ["--wait", "--timeout", "3500ms"], environment: shop.environment
            ).errors
            let printed = (remark + waited).matches(
                of: /pushq-admin (campaign (set|show|resume) [^\n]*?-- -20%-friday)/)
            #expect(Set(printed.map { String($0.2) }) == ["set", "show", "resume"], "\(remark)\(waited)")
            for command in printed.map({ String($0.1) }) {
                let pasted = try await Executable.admin.run(
                    command.split(separator: " ").map(String.init), environment: shop.environment)
                #expect(pasted.code == 0, "\(command): \(pasted.errors)")
            }
        }
    }

    /// An apostrophe with an accent is one character, but a shell sees an apostrophe. A line break must not begin a
    /// line that looks like one of the doctor's own.
    @Test func `of a name with accents and line breaks is one line and one word, or the shell does nothing`()
        async throws
    {
        try await Shop.open { shop in
            let mark = shop.folder.path("mark")
            let names = ["x'\u{301}; touch \(mark); '", "x\n    touch \(mark); : '\n    touch \(mark)"]
            for (number, name) in names.enumerated() {
                try await shop.run(
                    """
                    insert into pushq.credential (tenant_id, name, kind, fingerprint, environments, not_after, sealed)
                    select id, $$\(name)$$, 'certificate', '\(number)', '{production}', now() - interval '1 day', ''
                    from pushq.tenant
                    """)
            }
            let found = try await shop.admin("doctor").output
            let remedies = found.split(separator: "\n").filter { $0.hasPrefix("    ") && $0.contains("touch") }
            #expect(remedies.count == names.count, "\(found)")
            for remedy in remedies {
                #expect(remedy.hasPrefix("    pushq-admin credential remove acme '"), "\(remedy)")
                _ = try await Executable(path: "/bin/bash").run(["-c", "pushq-admin() { :; }; \(remedy)"])
            }
            #expect(!FileManager.default.fileExists(atPath: mark))
        }
    }

    @Test func `quotes the name of a credential`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                insert into pushq.credential (tenant_id, name, kind, fingerprint, environments, not_after, sealed)
                select id, $$\(Self.name)$$, 'certificate', '', '{production}', now() - interval '1 day', ''
                from pushq.tenant
                """)
            let found = try await shop.admin("doctor").output
            #expect(found.contains("pushq-admin credential remove acme \(Self.quoted)"), "\(found)")
            try await shop.run(
                "update pushq.credential set not_after = null, kind = 'token', team_id = 'T', key_id = 'K'")
            let next = try await shop.admin("doctor").output
            #expect(next.contains("pushq-admin queue set \(Shop.queue) --credential \(Self.quoted)"), "\(next)")
            let key = try shop.folder.write(PrivateKey.makeP256().pem(), to: "AuthKey_KEY1234567.p8")
            let again = try await shop.admin(
                "credential", "add", "acme", Self.name, "--p8", key, "--team-id", "TEAM123456")
            #expect(again.errors.contains("pushq-admin credential replace acme \(Self.quoted)"), "\(again.errors)")
        }
    }
}
