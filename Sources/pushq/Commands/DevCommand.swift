import LocalStack
import Terminal

struct DevCommand: Terminal.Command {
    static let name = "dev"
    static let users = CommandUsers.anybody
    static let summary =
        "Runs everything on this machine, with sample data: PostgreSQL, an APNs simulator, a worker, the dashboard."
    static let discussion = """
        Use it to try pushq, or to develop against it. It prints commands to try, and runs until Ctrl-C. Then it \
        deletes everything, including the data. Its PostgreSQL is private: nothing else on the machine is changed.

        pushq-admin must be in the same folder as this program, because it serves the dashboard.
        """
    static let examples = ["dev", "dev --port 0 --json"]

    @Option("The port of the dashboard; 0 takes a free one.") var port: PortNumber = PortNumber(9465)

    func run(_ console: Console) async throws {
        let dev = Dev(port: port.number, reaper: try Reaper(), console: console)
        try await dev.run()
    }
}
