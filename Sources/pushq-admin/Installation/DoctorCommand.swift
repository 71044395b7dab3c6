import PostgresStore
import Terminal

struct DoctorCommand: Command {
    static let name = "doctor"
    static let users = CommandUsers.operators(because: "it looks at the server and at all tenants")
    static let summary = "Finds problems of an installation, and says how to fix them."
    static let discussion = """
        Each finding has a severity, the facts, and a line that can be pasted into a shell or into psql. Error: pushes \
        are not sent, or data is in danger. Warning: it works, but slower or less safely than it should. Note: \
        somebody has chosen this, and may have forgotten it. If there is an error, the exit code is 1.

        It only reads. Its cost does not depend on how many jobs wait. With PUSHQ_MASTER_KEY_FILE or PUSHQ_MASTER_KEY \
        it also checks that these keys open the credentials.
        """
    static let examples = ["doctor", "doctor --json", "doctor --list"]

    @Flag("List the checks without running them.") var list
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        guard !list else { return show(Diagnosis.names, on: console) }
        let diagnosis = try await Diagnosis.make(of: database, console)
        console.show(diagnosis.text, json: diagnosis.json)
        if diagnosis.count(of: .error) > 0 { throw Unsuccessful() }
    }

    private func show(_ checks: [(name: String, summary: String)], on console: Console) {
        console.show(checks, columns: [Column("check") { .text($0.name) }, Column("looks_for") { .text($0.summary) }])
    }
}
