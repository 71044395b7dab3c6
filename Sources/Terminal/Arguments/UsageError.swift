/// An error in a command line.
///
/// Its text is one line that ends with the command that shows the help. It ends the program with exit code 2.
package struct UsageError: Error, Equatable, CustomStringConvertible {
    /// What is wrong, as a sentence without a full stop.
    package let problem: String
    /// A command line that helps, such as the command with `--help`; empty until the parser knows the command.
    package let remedy: String

    /// An error of a command whose arguments are each valid, but not together.
    package init(_ problem: String) {
        self.init(problem, remedy: "")
    }

    init(_ problem: String, remedy: String) {
        self.problem = problem
        self.remedy = remedy
    }

    /// Returns the same error with `command` as its remedy, unless it has one.
    func suggesting(_ command: String) -> UsageError {
        remedy.isEmpty ? UsageError(problem, remedy: command) : self
    }

    package var description: String {
        remedy.isEmpty ? problem : Messages.usage(problem: problem, remedy: remedy)
    }
}
