/// Prints the completion for a shell. Every program has it.
struct CompletionCommand: Command {
    static let name = "completion"
    static let users = CommandUsers.anybody
    static let summary = "Prints a script with which a shell completes commands and options."
    static let discussion = """
        For bash, put into ~/.bashrc: source <(PROGRAM completion bash). For zsh, write it to a folder of $fpath, as _PROGRAM. For \
        fish, write it to ~/.config/fish/completions, as PROGRAM.fish.
        """
    static let examples = ["completion bash", "completion zsh", "completion fish"]

    @Positional("The shell: bash, zsh or fish.") var shell: CompletionShell

    func run(_ console: Console) async throws {
        let program = ProgramDescription.running
        console.print(shell.script(for: program.name, program.root))
    }
}
