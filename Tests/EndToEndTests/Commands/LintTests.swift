import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `pushq lint` {
    private func lint(_ payload: String, _ options: String...) async throws -> Executable.Ended {
        try await Executable.pushq.run(["lint", "-"] + options, input: payload)
    }

    @Test func `names line and column of errors, and ends with 1`() async throws {
        let ended = try await lint(
            "\n{\"aps\": {\"alert\": {\"title\": 5},\n  \"badge\": \"1\", \"foo\": 2}}\n", "--priority", "7")
        #expect(ended.code == 1)
        #expect(
            ended.output == """
                standard input:2:29: error: aps.alert.title is a number: use a string
                standard input:3:12: error: aps.badge is a string: use a whole number, 0 or greater
                standard input:3:17: warning: aps.foo is not a key that Apple documents: a key of your own belongs next to aps
                standard input: error: priority 7 is unknown: use 10, 5 or 1
                standard input: 58 of 4,096 bytes, 3 errors, 1 warning

                """)
        #expect(ended.errors.isEmpty)
    }

    @Test func `lets warnings pass, and says them in JSON as well`() async throws {
        let ended = try await lint(#"{"aps":{"content-changed":true,"new":1}}"#, "--push-type", "widgets", "--json")
        #expect(ended.code == 0)
        #expect(ended.output.hasPrefix(#"{"file":"standard input","bytes":40,"errors":0,"warnings":1,"findings":[{"#))
        #expect(ended.output.contains(#""severity":"warning","path":"aps.new","line":1,"column":32"#))
    }

    @Test func `holds a broadcast against its own rules`() async throws {
        let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
        let right = try await lint(update, "--broadcast", "none", "--expiration", "0")
        #expect(right.output == "standard input: 59 of 5,120 bytes, 0 errors, 0 warnings\n")
        let wrong = try await lint(update, "--broadcast", "latest", "--expiration", "0")
        #expect(wrong.code == 1)
        #expect(wrong.output.contains("error: expiration 0 does not go with a channel that stores the latest message"))
    }

    @Test func `lets the update of a Wallet pass be empty, and nothing else`() async throws {
        let pass = try await lint("{}", "--bundle-id", "pass.com.acme.card")
        #expect(pass.output == "standard input: 2 of 4,096 bytes, 0 errors, 0 warnings\n")
        #expect(try await lint("{}").code == 1)
        #expect(try await lint("{}", "--bundle-id", "com.acme.shop").code == 1)
    }

    @Test func `asks for the arguments of a push to a website, in every language`() async throws {
        let alert = #"{"aps":{"alert":"x"}}"#
        let website = try await lint(alert, "--bundle-id", "web.com.acme")
        #expect(website.code == 1)
        #expect(
            website.output == """
                standard input:1:8: error: aps.url-args is missing, which a push to a website requires: set it to the values for its urlFormatString, or to []
                standard input: 21 of 4,096 bytes, 1 error, 0 warnings

                """)
        let right = #"{"aps":{"alert":"x","url-args":[]}}"#
        #expect(try await lint(right, "--bundle-id", "web.com.acme").code == 0)
        let translated = try await lint(
            #"{"default":\#(right),"languages":{"de":\#(alert)}}"#, "--bundle-id", "web.com.acme")
        #expect(translated.output.contains("error: language “de”: aps.url-args is missing"))
        #expect(try await lint(alert, "--bundle-id", "com.acme.shop").code == 0)
        let misused = try await lint(alert, "--broadcast", "none", "--bundle-id", "web.com.acme")
        #expect(misused.errors.contains("--bundle-id are not for a --broadcast"))
    }

    @Test func `says a finding on one line that does not steer the terminal, whatever a key contains`() async throws {
        let payload = #"{"aps":{"alert":"x","\u001b[2J\nforged":1}}"#
        let ended = try await lint(payload)
        #expect(ended.code == 0)
        #expect(ended.output.contains(#"warning: aps.\u{1B}[2J forged is not a key that Apple documents"#))
        #expect(!ended.output.utf8.contains(0x1B))
        #expect(ended.output.split(separator: "\n").count == 2, "\(ended.output)")
        let json = try await lint(payload, "--json")
        #expect(!json.output.utf8.contains(0x1B))
    }

    @Test func `says where a text stops being JSON`() async throws {
        let ended = try await lint(#"{"aps": {"alert": "x"}"#)
        #expect(ended.code == 1)
        #expect(ended.output.hasPrefix("standard input:1:23: error: the payload is not JSON: "))
    }
}
