import Testing

@testable import Terminal

@Suite struct `A command that destroys something` {
    /// Runs a command on a console where `answer` is typed.
    private func run(_ words: String..., answer: (@Sendable () -> String?)?) async -> (ExitCode, Transcript) {
        let transcript = Transcript()
        let code = await bakery.run(["shop", "empty"] + words, console: transcript.console(answer: answer))
        return (code, transcript)
    }

    @Test(arguments: ["y", "yes", "Y", " Yes "])
    func `asks once, and does it when the answer is yes`(answer: String) async {
        let (code, transcript) = await run(answer: { answer })
        #expect(code == .done)
        #expect(transcript.errors == "This throws 1,207 loaves away. Continue? [y/N] ")
        #expect(transcript.output == "thrown away\n")
    }

    @Test(arguments: ["", "n", "no", "yess", "ye s s", "y\u{0}"])
    func `does nothing when the answer is anything else`(answer: String) async {
        let (code, transcript) = await run(answer: { answer })
        #expect(code == .failed)
        #expect(transcript.output.isEmpty)
        #expect(transcript.errors.hasSuffix("[y/N] bakery shop empty: nothing was changed\n"))
    }

    @Test func `does nothing at the end of input, and says so on a line of its own`() async {
        let (code, transcript) = await run(answer: { nil })
        #expect(code == .failed)
        #expect(transcript.errors.hasSuffix("[y/N] \nbakery shop empty: nothing was changed\n"))
    }

    @Test func `says what it needs where nobody can be asked`() async {
        let (code, transcript) = await run(answer: nil)
        #expect(code == .failed)
        #expect(
            transcript.errors
                == "bakery shop empty: this throws 1,207 loaves away; nothing was changed: pass --yes to do it\n")
        let (answered, spoken) = await run("--json", answer: { "y" })
        #expect(answered == .failed)
        #expect(spoken.errors.hasPrefix(#"{"error":"this throws 1,207 loaves away; nothing was changed"#))
    }

    @Test func `asks nobody who has said so in advance`() async {
        for answer in [nil, { "n" }] as [(@Sendable () -> String?)?] {
            let (code, transcript) = await run("--yes", answer: answer)
            #expect(code == .done)
            #expect(transcript.errors.isEmpty && transcript.output == "thrown away\n")
        }
    }
}
