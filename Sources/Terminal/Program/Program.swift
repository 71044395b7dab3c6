import Glibc
import Transport

/// An executable: its name, its commands, and what happens between its start and its exit code.
package struct Program: Sendable {
    package let name: String
    package let version: String
    package let summary: String
    let root: CommandTree

    /// A program of `commands`, shown in help in that order.
    package init(name: String, version: String, summary: String, commands: [CommandTree]) {
        self.name = name
        self.version = version
        self.summary = summary
        root = .group(
            name: name, summary: summary,
            commands + [.command(CompletionCommand.self), .command(ManCommand.self)])
    }

    /// Runs this process's command line and ends the process.
    package func main() async -> Never {
        StandardStream.fillClosed()
        ProcessArguments.hideSecrets()
        if let number = ProcessArguments.firstBroken {
            Console.standard.speaking(json: Self.wantsJSON(ProcessArguments.words))
                .complain(name, Messages.brokenArgument(number), code: .usage)
            exit(ExitCode.usage.rawValue)
        }
        let code = await run(ProcessArguments.words, console: Console.standard)
        exit(closeOutput(after: code).rawValue)
    }

    /// Closes standard output. A file system may report an error only when a file is closed.
    private func closeOutput(after code: ExitCode) -> ExitCode {
        do throws(StandardStream.Failure) {
            try StandardStream.output.close()
            return code
        } catch {
            guard code == .done, case .failed(let reason) = error else { return code }
            Console.standard.speaking(json: Self.wantsJSON(ProcessArguments.words))
                .complain(name, Messages.outputFailed(reason), code: .failed)
            return .failed
        }
    }

    /// Runs `arguments`, without the executable's name.
    package func run(_ arguments: [String], console: Console) async -> ExitCode {
        do {
            return try await perform(Parser(program: name, root: root).parse(arguments), console: console)
        } catch {
            console.speaking(json: Self.wantsJSON(arguments)).complain(
                error.command, error.problem, remedy: error.remedy, code: .usage)
            return .usage
        }
    }

    /// Whether errors are wanted as JSON, even for a command line that cannot be parsed.
    private static func wantsJSON(_ arguments: [String]) -> Bool {
        arguments.prefix { $0 != "--" }.contains("--json")
    }

    private func perform(_ request: Parser.Request, console: Console) async -> ExitCode {
        switch request {
        case .help(let path, let tree): console.print(Help(path: path, tree: tree).text)
        case .reference: console.print(Reference(program: name, root: root).markdown)
        case .version: console.print("\(name) \(version)")
        case .run(let command, let json, let path):
            return await run(command, path: path, console: console.speaking(json: json))
        }
        return check(console, path: name)
    }

    /// Checks whether the output could be written.
    private func check(_ console: Console, path: String) -> ExitCode {
        do {
            try console.checkOutput()
            return .done
        } catch {
            console.complain(path, error.description, code: .failed)
            return .failed
        }
    }

    private func run(_ command: any Command, path: String, console: Console) async -> ExitCode {
        do {
            let own = ProgramDescription(name: name, version: version, summary: summary, root: root)
            try await ProgramDescription.$current.withValue(own) {
                try await Console.$current.withValue(console) { try await command.run(console) }
            }
            return check(console, path: path)
        } catch let error as UsageError {
            let error = error.suggesting("\(path) --help")
            console.complain(path, error.problem, remedy: error.remedy, code: .usage)
            return .usage
        } catch let error as MissingRights {
            console.complain(path, error.description(for: type(of: command).users), code: .failed)
            return .failed
        } catch let error as Unsuccessful {
            let written = check(console, path: path)
            return written == .done ? error.code : written
        } catch {
            console.complain(path, String(describing: error), code: .failed)
            return .failed
        }
    }
}
