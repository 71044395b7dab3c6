import LocalStack
import Terminal

struct DevCommand: Terminal.Command {
    static let name = "dev"
    static let users = CommandUsers.anybody
    static let summary =
        "Runs everything on this machine, with sample data: PostgreSQL, a local APNs, a worker, the dashboard."
    static let discussion = """
        It is there to try pushq, and to develop against. It prints what to try, and runs until Ctrl-C; then all of it \
        is gone, with its data. The PostgreSQL is private: nothing else on the machine is touched.

        pushq-admin has to be beside this program: it serves the dashboard.
        """
    static let examples = ["dev", "dev --port 0 --json"]

    @Option("The port of the dashboard; 0 takes a free one.") var port: PortNumber = PortNumber(9465)

    func run(_ console: Console) async throws {
        let dev = Dev(port: port.number, minder: try Minder(), console: console)
        try await dev.run()
    }
}
