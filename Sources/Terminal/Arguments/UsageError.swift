/// An error in a command line.
///
/// Its text is one line that ends with the command that shows the help. It ends the program with exit code 2.
package struct UsageError: Error, Equatable, CustomStringConvertible {
    /// What is wrong, as a sentence without a full stop.
    package let problem: String
    /// A command line that helps, such as the command with `--help`; empty until the parser knows the command.
    package let remedy: String
    /// The command that it is about, such as `pushq-admin queue set`; empty until the parser knows it.
    let command: String

    /// An error of a command whose arguments are each valid, but not together.
    package init(_ problem: String) {
        self.init(problem, remedy: "")
    }

    init(_ problem: String, remedy: String, command: String = "") {
        self.problem = problem
        self.remedy = remedy
        self.command = command
    }

    /// Returns the same error as one of the command with these words.
    func of(_ path: [String]) -> UsageError {
        UsageError(problem, remedy: remedy, command: path.joined(separator: " "))
    }

    /// Returns the same error with `command` as its remedy, unless it has one.
    func suggesting(_ command: String) -> UsageError {
        remedy.isEmpty ? UsageError(problem, remedy: command, command: self.command) : self
    }

    package var description: String {
        remedy.isEmpty ? problem : Messages.usage(problem: problem, remedy: remedy)
    }
}
