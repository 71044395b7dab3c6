/// The confirmation of a command that deletes something.
///
/// On a terminal it asks once, in one line that says what is lost. In a script, in a pipe or with `--json` there is no
/// user to ask, so `--yes` is required.
package struct Confirmation: ParameterGroup {
    @Flag("Do not ask for confirmation; required in scripts, in pipes and with --json.") var yes

    package init() {}

    /// Whether `--yes` was given, so that the command need not count anything for a question.
    package var isGiven: Bool { yes }

    /// Asks whether to continue, unless `--yes` was given.
    ///
    /// - Parameter loss: what is lost, as the end of a sentence that begins with “this”: `deletes audience vips (tag
    ///   'vip')`.
    /// - Throws: ``Failure`` if the answer is not yes, or no user can be asked.
    package func ask(_ console: Console, _ loss: @autoclosure () -> String) throws(Failure) {
        guard !yes else { return }
        let loss = loss()
        guard console.canAsk else { throw Failure(Messages.confirmationMissing(loss)) }
        let answer = console.ask(Messages.confirmation(loss))?.filter { !$0.isWhitespace }
        guard ["y", "yes"].contains(answer?.lowercased()) else { throw Failure(Messages.notConfirmed) }
    }
}
