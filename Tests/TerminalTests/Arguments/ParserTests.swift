import QueueCore
import Testing

@testable import Terminal

@Suite struct `Reading a command line` {
    private func bake(_ words: String...) async -> (code: ExitCode, output: String, errors: String) {
        let transcript = Transcript()
        let code = await bakery.run(words, console: transcript.console())
        return (code, transcript.output, transcript.errors)
    }

    @Test func `fills positionals, options, flags and shared options`() async {
        let run = await bake(
            "bake", "sourdough", "seeds", "--count=3", "--flour", "rye", "salt", "--together", "--baking-time", "50m",
            "--without", "sugar", "--without=eggs", "--heat", "240")
        #expect(run.code == .done)
        #expect(run.output == "3 sourdough [\"seeds\", \"salt\"] rye 50m [\"sugar\", \"eggs\"] true 240\n")
    }

    @Test func `leaves defaults where nothing is given`() async {
        #expect(await bake("bake", "toast", "--count", "1").output == "1 toast [] any 45m [] false 220\n")
    }

    @Test func `takes everything after two hyphens as arguments`() async {
        #expect(await bake("bake", "--count", "1", "--", "--together", "-x").output.hasPrefix("1 --together [\"-x\"]"))
    }

    @Test func `takes a single hyphen as a value`() async {
        #expect(await bake("bake", "--count", "1", "-").output.hasPrefix("1 - []"))
    }

    @Test(arguments: [
        (["bake"], "RECIPE is missing"),
        (["bake", "toast"], "--count N is missing"),
        (["bake", "toast", "--count"], "--count N needs a value"),
        (["bake", "toast", "--count", "--together"], "--count N needs a value"),
        (["bake", "toast", "--count", "many"], "--count 'many' is not a whole number"),
        (
            ["bake", "toast", "--count", "9223372036854775808"],
            "--count '9223372036854775808' is too large: use a number up to 9223372036854775807"
        ),
        (["bake", "toast", "--count", "1", "--count", "2"], "--count '2' is given twice"),
        (["bake", "toast", "--cuont", "1"], "there is no option '--cuont'; did you mean '--count'?"),
        (
            ["bake", "-half-", "--count", "1"],
            "there is no option '-half-'; an argument that begins with a hyphen goes behind --"
        ),
        (["bake", "toast", "--together=yes"], "--together takes no value"),
        (["bake", "toast", "--json=1"], "--json takes no value"),
        (["bake", "toast", "--help=no"], "--help takes no value"),
        (["bake", "toast", "--count", "1", "--flour", "oat"], "--flour 'oat' must be one of rye, wheat"),
        (
            ["bake", "toast", "--count", "1", "--baking-time", "soon"],
            "--baking-time 'soon' is not a duration such as 250ms, 30s, 5m, 2h or 7d; without a unit it is in seconds"
        ),
    ])
    func `says what is wrong and ends in the command that shows help`(words: [String], problem: String) async {
        let transcript = Transcript()
        let code = await bakery.run(words, console: transcript.console())
        #expect(code == .usage)
        #expect(transcript.output.isEmpty)
        let stop = problem.hasSuffix("?") ? "" : "."
        #expect(transcript.errors == "bakery bake: \(problem)\(stop) Try: bakery bake --help\n")
    }

    @Test(arguments: [
        ([], "bakery: 'bakery' needs a command. Try: bakery --help"),
        (["shop"], "bakery shop: 'bakery shop' needs a command. Try: bakery shop --help"),
        (["bkae"], "bakery: there is no command 'bkae'; did you mean 'bake'? Try: bakery bake --help"),
        (
            ["shop", "lits"],
            "bakery shop: there is no command 'lits'; did you mean 'list'? Try: bakery shop list --help"
        ),
        (
            ["shop", "open"],
            "bakery shop: there is no command 'open' (there are list, close, empty). Try: bakery shop --help"
        ),
        (["shop", "list", "--steam"], "bakery shop list: there is no option '--steam'. Try: bakery shop list --help"),
        (["shop", "list", "all"], "bakery shop list: unexpected argument 'all'. Try: bakery shop list --help"),
    ])
    func `finds the command in the tree`(words: [String], problem: String) async {
        let transcript = Transcript()
        #expect(await bakery.run(words, console: transcript.console()) == .usage)
        #expect(transcript.errors == "\(problem)\n")
    }

    @Test func `repeats no more of a wrong word than helps to find it`() async {
        let run = await bake("bake", "toast", "--count", "1\n2" + String(repeating: "x", count: 100))
        #expect(run.errors.contains("--count '1 2\(String(repeating: "x", count: 37))…' is not"))
    }
}

@Suite struct `Finding what was meant` {
    @Test(arguments: [
        ("token", "tokne", 1), ("send", "send", 0), ("list", "lost", 1), ("work", "walk", 2), ("", "ab", 2),
    ])
    func `counts slips of the pen`(first: String, second: String, expected: Int) {
        #expect(Suggestion.distance(first, second) == expected)
    }

    @Test func `does not guess when nothing is near`() {
        #expect(Suggestion.nearest(to: "zebra", among: ["send", "work"]) == nil)
        #expect(Suggestion.nearest(to: "wrk", among: ["send", "work"]) == "work")
    }
}
