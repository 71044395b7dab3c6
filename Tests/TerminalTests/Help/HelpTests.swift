import Testing

@testable import Terminal

@Suite struct `The help of a command` {
    private func output(of words: String...) async -> String {
        let transcript = Transcript()
        #expect(await bakery.run(words, console: transcript.console()) == .done)
        #expect(transcript.errors.isEmpty)
        return transcript.output
    }

    @Test func `of the program lists its commands`() async {
        let text = """
            Bakes and sells.

            Usage: bakery COMMAND …

            Commands:
              bake                    Bakes loaves, one after the other or all at once, as
                                      many as there is flour for.
              shop                    What is sold.
              completion              Prints a script with which a shell completes commands
                                      and options.
              man                     Prints the manual page, as man(1) reads it.

            Global options:
              --json                  Print JSON instead of text.
              --help                  Show this help.
              --version               Show the version.

            'bakery help COMMAND' shows more about a command.

            """
        #expect(await output(of: "--help") == text)
        #expect(await output(of: "-h") == text)
        #expect(await output(of: "help") == text)
    }

    @Test func `of a command shows all it takes`() async {
        let text = """
            Bakes loaves, one after the other or all at once, as many as there is flour for.

            Usage: bakery bake RECIPE [EXTRAS …] --count N [OPTIONS]

            The oven is heated first.

            Loaves that do not fit wait.

            Arguments:
              RECIPE                  What to bake.
              EXTRAS                  What to add.

            Options:
              --count N               How many loaves. (required)
              --flour rye|wheat       Which flour.
              --baking-time DURATION  How long each is in the oven. (default: 45m)
              --without NAME          Something to leave out. (may be repeated)
              --together              Bake all at once.
              --heat N                How hot, in degrees. (default: 220)

            Global options:
              --json                  Print JSON instead of text.
              --help                  Show this help.

            Examples:
              bakery bake --count 3 sourdough
              bakery bake --count 1 'corn bread' --flour rye

            """
        #expect(await output(of: "bake", "--help") == text)
        #expect(await output(of: "bake", "toast", "--count", "1", "-h") == text)
        #expect(await output(of: "help", "bake") == text)
    }

    @Test func `of a group shows its commands alone`() async {
        #expect(await output(of: "shop", "--help").contains("Usage: bakery shop COMMAND …\n\nCommands:\n  list "))
    }

    @Test func `works at each level, before and after a name`() async {
        let group = await output(of: "shop", "--help")
        #expect(await output(of: "shop", "help") == group)
        #expect(await output(of: "help", "shop") == group)
        let command = await output(of: "shop", "list", "--help")
        #expect(await output(of: "shop", "help", "list") == command)
        #expect(await output(of: "help", "shop", "list") == command)
    }

    @Test func `as Markdown has a heading for every command`() async {
        let headings = await output(of: "help", "--markdown").split(separator: "\n").filter { $0.hasPrefix("#") }
        #expect(
            headings == [
                "## bakery", "### bakery bake", "### bakery shop", "#### bakery shop list", "#### bakery shop close",
                "#### bakery shop empty", "### bakery completion", "### bakery man",
            ])
    }

    @Test(arguments: [("queue", "QUEUE"), ("keyFile", "KEY-FILE"), ("bundleID", "BUNDLE-ID")])
    func `names an argument by the words of its property`(property: String, name: String) {
        #expect(ParameterName.positional(for: property) == name)
    }

    @Test func `tells the version`() async {
        #expect(await output(of: "--version") == "bakery 1.2.3\n")
    }
}
