/// A shell that can complete command lines.
package enum CompletionShell: String, ArgumentChoice {
    case bash, zsh, fish

    /// Returns the script that completes a program's commands and options.
    func script(for program: String, _ root: CommandTree) -> String {
        let places = CompletionPlace.all(of: root)
        return switch self {
        case .bash: BashCompletion(program: program, places: places).script
        case .zsh: ZshCompletion(program: program, places: places).script
        case .fish: FishCompletion(program: program, places: places).script
        }
    }
}
