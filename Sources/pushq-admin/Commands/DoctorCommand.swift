import PostgresStore
import Terminal

struct DoctorCommand: Command {
    static let name = "doctor"
    static let users = CommandUsers.operators(because: "it looks at the server and at all tenants")
    static let summary = "Looks for what is wrong with an installation, and says what to do."
    static let discussion = """
        Each finding has a severity, what shows it, and a line that can be pasted into a shell or into psql. An error: pushes \
        are not sent, or data is in danger. A warning: it works, but slower or less safely than it should. A note: \
        somebody has chosen it, and may have forgotten it. With an error the exit code is 1.

        It reads, and changes nothing. What it asks costs the same however many jobs wait. With PUSHQ_MASTER_KEY_FILE or \
        PUSHQ_MASTER_KEY it also looks whether these keys open the credentials.
        """
    static let examples = ["doctor", "doctor --json", "doctor --list"]

    @Flag("List what it looks at, and look at nothing.") var list
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
