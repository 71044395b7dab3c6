/// The name and the commands of an executable, for commands that are about the program itself.
struct ProgramDescription: Sendable {
    let name: String
    let version: String
    let summary: String
    let root: CommandTree

    /// The program that runs the current command.
    static var running: ProgramDescription {
        guard let program = current else { fatalError("a command is run by a program") }
        return program
    }

    @TaskLocal static var current: ProgramDescription?
}
