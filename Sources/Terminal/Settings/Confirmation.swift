/// Whether a command that destroys something is to do it.
///
/// On a terminal it asks once, in one line that says what is lost. Nobody can be asked in a script, in a pipe or where
/// results are JSON: there `--yes` has to be given.
package struct Confirmation: ParameterGroup {
    @Flag("Do not ask for confirmation; required in scripts, in pipes and with --json.") var yes

    package init() {}

    /// Whether it was given in advance, so that nothing has to be counted for a question.
    package var isGiven: Bool { yes }

    /// Asks whether to go on, unless that was said in advance.
    ///
    /// - Parameter loss: what is lost then, as the end of a sentence that begins with “this”:
    ///   `deletes audience vips (tag 'vip')`.
    /// - Throws: ``Failure`` if the answer is not yes, or nobody can be asked.
    package func ask(_ console: Console, _ loss: @autoclosure () -> String) throws(Failure) {
        guard !yes else { return }
        let loss = loss()
        guard console.canAsk else { throw Failure(Messages.confirmationMissing(loss)) }
        let answer = console.ask(Messages.confirmation(loss))?.filter { !$0.isWhitespace }
        guard ["y", "yes"].contains(answer?.lowercased()) else { throw Failure(Messages.notConfirmed) }
    }
}
