import Terminal
import Testing

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
