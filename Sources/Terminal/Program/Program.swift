import Foundation

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
        root = .group(name: name, summary: summary, commands)
    }

    /// Carries out this process's command line and ends the process.
    package func main() async -> Never {
        ProcessArguments.hidePasswords()
        let code = await run(ProcessArguments.words, console: Console.standard)
        exit(code.rawValue)
    }

    /// Carries out `arguments`, the executable's name not among them.
    package func run(_ arguments: [String], console: Console) async -> ExitCode {
        do {
            return try await perform(Parser(program: name, root: root).parse(arguments), console: console)
        } catch {
            console.complain(Messages.failure(name, error.description))
            return .usage
        }
    }

    private func perform(_ request: Parser.Request, console: Console) async -> ExitCode {
        switch request {
        case .help(let path, let tree): console.print(Help(path: path, tree: tree).text)
        case .reference: console.print(Reference(program: self).markdown)
        case .version: console.print("\(name) \(version)")
        case .run(let command, let json, let path):
            return await run(command, path: path, console: console.speaking(json: json))
        }
        return .done
    }

    private func run(_ command: any Command, path: String, console: Console) async -> ExitCode {
        do {
            try await command.run(console)
            return .done
        } catch let error as UsageError {
            let example = type(of: command).examples.first.map { "\(name) \($0)" } ?? "\(path) --help"
            console.complain(Messages.failure(path, error.suggesting(example).description))
            return .usage
        } catch is Unsuccessful {
            return .failed
        } catch {
            console.complain(Messages.failure(path, String(describing: error)))
            return .failed
        }
    }
}

/// Thrown by a command that has already said what went wrong, to end with exit code 1.
package struct Unsuccessful: Error {
    package init() {}
}

/// Thrown by a command that failed, with one line that says what was tried, what happened and what to do.
package struct Failure: Error, CustomStringConvertible {
    package let description: String

    /// One line, without a full stop.
    package init(_ description: String) {
        self.description = description
    }
}
