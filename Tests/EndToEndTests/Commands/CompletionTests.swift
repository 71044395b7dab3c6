import Foundation
import TestSupport
import Testing

/// What the shells themselves make of the scripts.
@Suite(.timeLimit(.minutes(10))) struct `The completion of commands` {
    enum Shell: String, CaseIterable {
        case bash, zsh, fish
    }

    /// What a shell offers for the last of `words`, which has been begun.
    private func offers(_ shell: Shell, _ program: String, _ words: [String]) async throws -> [String] {
        let folder = try TemporaryFolder()
        let executable: Executable = program == "pushq" ? .pushq : .admin
        let printed = try await executable.run(["completion", shell.rawValue])
        #expect(printed.code == 0 && printed.errors.isEmpty, "\(printed.errors)")
        let script = try folder.write(printed.output, to: "completion")
        try folder.write("", to: "payload.json")
        let function = "_" + program.replacing("-", with: "_")
        let line = ([program] + words).map { "'\($0)'" }.joined(separator: " ")
        let tries =
            switch shell {
            case .bash:
                """
                source "$1"; complete -p \(program) >/dev/null; cd "$2"
                COMP_WORDS=(\(line)); COMP_CWORD=\(words.count); \(function); printf '%s\\n' "${COMPREPLY[@]}"
                """
            case .zsh:
                // What a completion calls is there only while one goes on: these say what they are called with.
                """
                compdef() { [[ $1 == \(function) && $2 == \(program) ]] || print -u2 "compdef $@" }
                compadd() { [[ $1 == -- ]] && shift; print -l -- $@ }
                _describe() { print -l -- ${${(P)2}%%:*} }
                _files() { print -l -- *(N) }
                source "$1"; cd "$2"; words=(\(line)); CURRENT=\(words.count + 1); \(function)
                """
            case .fish:
                "source $argv[2]; cd $argv[3]; complete -C \"\(program) \(words.joined(separator: " "))\""
            }
        let options = shell == .zsh ? ["-f", "-c"] : ["-c"]
        let ended = try await Executable(path: "/usr/bin/\(shell)").run(
            options + [tries] + (shell == .fish ? ["fish"] : [shell.rawValue]) + [script, folder.path("")],
            environment: ["HOME": folder.path("")])
        #expect(ended.code == 0 && ended.errors.isEmpty, "\(ended.errors)")
        // fish puts the help behind each; zsh gets all, and chooses by itself.
        let offered = ended.output.split(separator: "\n").map { String($0.prefix { $0 != "\t" }) }
        return offered.filter { $0.hasPrefix(words.last ?? "") }.sorted()
    }

    @Test(arguments: Shell.allCases)
    func `offers commands, options, values and files, each in its place`(shell: Shell) async throws {
        #expect(try await offers(shell, "pushq-admin", ["ten"]) == ["tenant"])
        #expect(try await offers(shell, "pushq-admin", ["queue", "p"]) == ["pause"])
        #expect(try await offers(shell, "pushq-admin", ["queue", "set", "acme/x/sandbox", "--ga"]) == ["--gateway"])
        #expect(try await offers(shell, "pushq-admin", ["queue", "set", "--gateway", ""]) == ["binary", "http2"])
        // A value that is called like a command leads nowhere.
        #expect(try await offers(shell, "pushq-admin", ["queue", "create", "set", "--ga"]) == [])
        #expect(try await offers(shell, "pushq-admin", ["completion", "b"]) == ["bash"])
        #expect(try await offers(shell, "pushq", ["work", "--log-f"]) == ["--log-format"])
        #expect(try await offers(shell, "pushq", ["work", "--log-format", ""]) == ["json", "text"])
        #expect(try await offers(shell, "pushq", ["send", "acme/x/sandbox", "--payload", "pay"]) == ["payload.json"])
        #expect(try await offers(shell, "pushq", ["lint", "pay"]) == ["payload.json"])
        #expect(try await offers(shell, "pushq", ["work", "--queues", ""]) == [])
    }
}

@Suite struct `The manual page` {
    @Test(arguments: ["pushq", "pushq-admin"])
    func `is one that man reads without a warning, and names every command`(program: String) async throws {
        let executable: Executable = program == "pushq" ? .pushq : .admin
        let folder = try TemporaryFolder()
        let page = try folder.write(try await executable.run(["man"]).output, to: "page.1")
        let checked = try await Executable(path: "/usr/bin/mandoc").run(["-T", "lint", "-W", "warning", page])
        // The page is made of the program, and has no date of its own.
        let warnings = checked.output.split(separator: "\n").filter { !$0.hasSuffix("missing date, using \"\": TH") }
        #expect(warnings.isEmpty && !checked.output.isEmpty, "\(checked.output) \(checked.errors)")
        let shown = try await Executable(path: "/usr/bin/mandoc").run(["-T", "ascii", "-O", "width=200", page])
        // Bold letters are struck twice.
        let text = shown.output.replacing(/.\x08/, with: "")
        #expect(text.contains("EXIT STATUS") && text.contains("PUSHQ_DATABASE_URL"))
        let reference = try await executable.run(["help", "--markdown"]).output
        let usages = reference.matches(of: /\nUsage: (pushq[a-z -]*[a-z])(?: |\n)/).map { String($0.output.1) }
        #expect(usages.count > 8)
        for usage in usages { #expect(text.contains("   \(usage)"), "\(usage)") }
    }
}
