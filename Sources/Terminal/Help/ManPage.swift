/// The help of every command as one page for man(1), by the conventions of man-pages(7) and in the macros of man(7).
struct ManPage {
    let program: ProgramDescription

    /// The page, without a newline at its end.
    var text: String {
        let name = program.name
        var lines = [
            ".TH \"\(name.uppercased())\" \"1\" \"\" \"pushq \(program.version)\" \"pushq\"", ".SH NAME",
            "\(escaped(name)) \\- \(escaped(program.summary))", ".SH SYNOPSIS", ".B \(escaped(name))",
            ".I COMMAND", "\\&...", ".SH COMMANDS",
        ]
        lines += chapters(program.root, [name])
        lines += [".SH GLOBAL OPTIONS"]
        for (option, help) in Messages.everywhere + [Messages.version] { lines += entry(option, help) }
        lines += [".SH ENVIRONMENT"]
        for (variable, help) in Self.environment { lines += entry(variable, help) }
        lines += [".SH EXIT STATUS"]
        for (code, help) in Self.exitCodes { lines += entry("\(code.rawValue)", help) }
        return lines.joined(separator: "\n")
    }

    private static let environment = [
        (
            "PUSHQ_DATABASE_URL",
            "The database, as postgres://user@host/name. By default libpq's PGHOST, PGDATABASE and others are used."
        ),
        ("PUSHQ_MASTER_KEY_FILE", "The file with the master keys: each of 64 hexadecimal digits."),
        ("PUSHQ_MASTER_KEY", "The master keys themselves, instead of the file."),
    ]

    private static let exitCodes: [(ExitCode, String)] = [
        (.done, "Success."), (.failed, "Failure."), (.usage, "The command line is wrong."),
        (.unfinished, "It was started, but the command stopped waiting for its end (--timeout or Ctrl-C)."),
    ]

    private func chapters(_ tree: CommandTree, _ path: [String]) -> [String] {
        switch tree {
        case .group(_, let summary, let children):
            let head = path.count == 1 ? [] : [".SS \"\(escaped(path.joined(separator: " ")))\"", escaped(summary)]
            return head + children.flatMap { chapters($0, path + [$0.name]) }
        case .command(let type): return chapter(type, path)
        }
    }

    private func chapter(_ type: any Command.Type, _ path: [String]) -> [String] {
        let fields = CommandFields(of: type.init())
        let required = fields.options.filter(\.isRequired).map(\.usage)
        let title = (path + fields.positionals.map(\.name) + required).joined(separator: " ")
        var lines = [".SS \"\(escaped(title))\"", escaped(type.summary)]
        for text in type.discussion.split(separator: "\n\n").map(String.init) + [type.users.help] where !text.isEmpty {
            lines += [".PP", escaped(text)]
        }
        for positional in fields.positionals { lines += entry(positional.name, positional.help) }
        for option in fields.options { lines += entry(option.usage, option.explanation) }
        guard !type.examples.isEmpty else { return lines }
        return lines + [".PP", "Examples:", ".PP", ".nf"] + type.examples.map { escaped("    \(path[0]) \($0)") }
            + [".fi"]
    }

    private func entry(_ name: String, _ text: String) -> [String] {
        [".TP", "\\fB\(escaped(name))\\fR", escaped(text)]
    }

    /// Returns a text that roff prints unchanged: hyphens can be pasted, and nothing is an escape or a request.
    private func escaped(_ text: String) -> String {
        let plain = text.replacing("\\", with: "\\e").replacing("-", with: "\\-").replacing("…", with: "...")
            .replacing("\"", with: "\\(dq").replacing("\n", with: " ")
        return plain.hasPrefix(".") || plain.hasPrefix("'") ? "\\&\(plain)" : plain
    }
}

/// Prints the page for man(1). Every program has it.
struct ManCommand: Command {
    static let name = "man"
    static let users = CommandUsers.anybody
    static let summary = "Prints the manual page, as man(1) reads it."
    static let discussion =
        "To read it: PROGRAM man | man -l -. To install it: write it to /usr/local/share/man/man1/PROGRAM.1."
    static let examples = ["man"]

    func run(_ console: Console) async throws {
        console.print(ManPage(program: .running).text)
    }
}
