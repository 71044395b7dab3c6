import Foundation
import TestSupport
import Testing

/// Answers “Why did user 42 not get it?” with only the command line.
@Suite(.timeLimit(.minutes(10))) struct `The command trace` {
    private func trace(_ arguments: String..., in shop: Shop, code: Int32 = 0) async throws -> String {
        let ended = try await Executable.admin.run(["trace", Shop.queue] + arguments, environment: shop.environment)
        #expect(ended.code == code, "\(arguments): \(ended.errors)")
        return ended.output
    }

    @Test func `answers why a user did not get a campaign or a send`() async throws {
        try await Shop.open { shop in
            let token = String(repeating: "4a", count: 32)
            let sandbox = "acme/com.acme.shop/sandbox"
            for arguments in [
                ["queue", "create", sandbox], ["device", "register", Shop.queue, token, "--user-key", "42"],
                ["device", "register", sandbox, token, "--user-key", "43"],
            ] {
                #expect(try await Executable.admin.run(arguments, environment: shop.environment).code == 0)
            }
            let payload = try shop.folder.write(#"{"aps":{"alert":"hello"}}"#, to: "payload.json")
            let started = try await shop.pushq(
                "campaign", Shop.queue, "--key", "spring", "--payload", payload, "--audience", "all")
            #expect(started.code == 0, "\(started.errors)")

            // The campaigns and sends, and their state for the user.
            var told = try await trace("--user", "42", in: shop)
            #expect(told.contains("spring") && told.contains("not yet: fan-out has not put it into a job"), "\(told)")
            // Only a campaign, which has no job yet.
            told = try await trace("--campaign", "spring", in: shop)
            #expect(told.contains("not yet: fan-out has put nobody into a job so far"), "\(told)")
            // A user whose app runs in the sandbox.
            told = try await trace("--user", "43", in: shop, code: 1)
            #expect(told.contains("the user has no device in this queue; found in \(sandbox)"), "\(told)")
            // A user whose device is inactive.
            #expect(try await shop.admin("device", "deactivate", Shop.queue, token).code == 0)
            told = try await trace("--user", "42", "--campaign", "spring", in: shop)
            #expect(told.contains("the device has been inactive since then: it was deactivated by hand"), "\(told)")
            #expect(!told.contains(token), "tokens are shortened")
            // The same as JSON for a program.
            let sent = try await shop.pushq(
                "send", Shop.queue, "--token", token, "--alert", "hello", "--json")
            let facts = try #require(
                try JSONSerialization.jsonObject(with: Data(sent.output.utf8)) as? [String: Any])
            let id = try #require(facts["apns_id"] as? String)
            let lines = try await trace("--apns-id", id, "--json", in: shop)
            #expect(lines.contains("it waits: the queue has no credential") && lines.contains(id), "\(lines)")
        }
    }

    @Test func `fails if there is no such device or send, and not if nothing was sent to one`() async throws {
        try await Shop.open { shop in
            let token = String(repeating: "4a", count: 32)
            let registered = try await shop.admin("device", "register", Shop.queue, token, "--user-key", "42")
            #expect(registered.code == 0, "\(registered.errors)")
            _ = try await trace("--token", token, in: shop)
            _ = try await trace("--user", "42", in: shop)
            var told = try await trace("--token", String(repeating: "4b", count: 32), in: shop, code: 1)
            #expect(told.contains("there is no such token in this queue"), "\(told)")
            told = try await trace("--user", "44", in: shop, code: 1)
            #expect(told.contains("the user has no device in this queue"), "\(told)")
            for arguments in [["--send", "4711"], ["--send", "4711", "--user", "42"]] {
                let ended = try await Executable.admin.run(
                    ["trace", Shop.queue] + arguments, environment: shop.environment)
                #expect(ended.code == 1 && ended.output.contains("there is no such send in this queue"), "\(ended)")
            }
            told = try await trace("--user", "42", "--since", "2026-03-01T14:02:00Z", in: shop)
            #expect(told.contains("no push for it ended in this time"), "\(told)")
            told = try await trace("--apns-id", "00000000-0000-8001-8000-000000000fff", in: shop, code: 1)
            #expect(told.contains("there is no device of this number"), "\(told)")
        }
    }

    @Test func `says what is missing`() async throws {
        try await Shop.open { shop in
            let none = try await shop.admin("trace", Shop.queue)
            let choice = "name what to trace: --token, --user, --apns-id, --send or --campaign"
            #expect(none.code == 2 && none.errors.contains(choice))
            let both = try await shop.admin("trace", Shop.queue, "--user", "1", "--token", "aa")
            #expect(both.code == 2)
            let (early, late) = ("2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z")
            let backwards = try await shop.admin("trace", Shop.queue, "--user", "1", "--since", late, "--until", early)
            expectFailure(backwards, code: 2, saying: "--since is later than --until")
            let timed = try await shop.admin("trace", Shop.queue, "--send", "1", "--since", early)
            expectFailure(timed, code: 2, saying: "--since and --until go only with --token or --user")
            let wrong = try await shop.admin("trace", Shop.queue, "--apns-id", "x")
            #expect(wrong.code == 2 && wrong.errors.contains("is not an apns-id of pushq"))
            let unknown = try await shop.admin("trace", Shop.queue, "--user", "1", "--campaign", "none")
            #expect(unknown.code == 1 && unknown.errors.contains("there is no campaign “none”"))
        }
    }
}
