/// A command line that cannot be carried out as it stands.
///
/// Its text is one line that ends in the command that shows its help. It ends the program with exit code 2.
package struct UsageError: Error, Equatable, CustomStringConvertible {
    /// What is wrong, as a sentence without a full stop.
    package let problem: String
    /// A command line that shows what would work; empty until the parser knows which command it is about.
    package let remedy: String

    /// Says what is wrong; thrown by commands whose arguments are fine one by one and do not go together.
    package init(_ problem: String) {
        self.init(problem, remedy: "")
    }

    init(_ problem: String, remedy: String) {
        self.problem = problem
        self.remedy = remedy
    }

    /// The same error with a command line to end in, unless it has one.
    func suggesting(_ command: String) -> UsageError {
        remedy.isEmpty ? UsageError(problem, remedy: command) : self
    }

    package var description: String {
        remedy.isEmpty ? problem : Messages.usage(problem: problem, remedy: remedy)
    }
}
