import Testing
import Transport

@testable import Terminal

@Suite struct `Running a program` {
    @Test func `tells a failure in one line on standard error and ends with 1`() async {
        let transcript = Transcript()
        #expect(await bakery.run(["shop", "close"], console: transcript.console()) == .failed)
        #expect(transcript.output.isEmpty)
        #expect(transcript.errors == "bakery shop close: cannot close the shop: there are customers in it\n")
    }

    @Test func `ends with 2 when a command does not take its arguments together`() async {
        let transcript = Transcript()
        let words = ["shop", "close", "--at", "2026-03-01T09:00:00Z"]
        #expect(await bakery.run(words, console: transcript.console()) == .usage)
        #expect(transcript.errors == "bakery shop close: --at is for another day. Try: bakery shop close --help\n")
    }

    @Test func `tells an error as a JSON object where results are JSON`() async {
        let cases: [([String], ExitCode, String)] = [
            (
                ["shop", "close", "--json"], .failed,
                #"{"error":"cannot close the shop: there are customers in it","command":"bakery shop close","exit":1}"#
            ),
            (
                ["shop", "close", "--json", "--at"], .usage,
                #"{"error":"--at TIME needs a value","command":"bakery shop close","exit":2,"try":"bakery shop close --help"}"#
            ),
            (["--json", "shop", "--", "--x"], .usage, #"{"error":"there is no command '--'"#),
        ]
        for (words, code, text) in cases {
            let transcript = Transcript()
            #expect(await bakery.run(words, console: transcript.console()) == code)
            #expect(transcript.output.isEmpty)
            #expect(transcript.errors.hasPrefix(text), "\(transcript.errors)")
        }
        let transcript = Transcript()
        _ = await bakery.run(["shop", "close", "--at", "x", "--", "--json"], console: transcript.console())
        #expect(!transcript.errors.hasPrefix("{"))
    }

    @Test func `ends with 1 when its result could not be written, and says why`() async {
        let transcript = Transcript()
        let full = Console(
            output: { _ in throw StandardStream.Failure.failed("No space left on device") },
            errors: { transcript.note($0) })
        for words in [["shop", "list"], ["shop", "list", "--json"], ["--version"], ["shop", "help"]] {
            #expect(await bakery.run(words, console: full) == .failed, "\(words)")
        }
        #expect(transcript.errors.split(separator: "\n").count == 4)
        #expect(transcript.errors.hasPrefix("bakery shop list: cannot write the output: No space left on device\n"))
    }

    @Test func `shows rows as a table to people`() async {
        let transcript = Transcript()
        #expect(await bakery.run(["shop", "list"], console: transcript.console()) == .done)
        #expect(
            transcript.output == """
                bread  in stock  price
                rye       1,200   3.50
                wheat         7  12.25

                """)
    }

    @Test(arguments: [["shop", "list", "--json"], ["--json", "shop", "list"], ["shop", "--json", "list"]])
    func `shows rows as one JSON array to programs`(words: [String]) async {
        let transcript = Transcript()
        #expect(await bakery.run(words, console: transcript.console()) == .done)
        let rows = #"[{"bread":"rye","in_stock":1200,"price":3.50},{"bread":"wheat","in_stock":7,"price":12.25}]"#
        #expect(transcript.output == rows + "\n")
    }
}
