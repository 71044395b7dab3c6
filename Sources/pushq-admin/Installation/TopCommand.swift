import OperatorViews
import PostgresStore
import Terminal
import Transport

struct TopCommand: Command {
    static let name = "top"
    static let users = CommandUsers.readers
    static let summary = "Shows the load of queues and workers live, on a terminal."
    static let discussion = """
        It shows what waits and since when, the rate and its limit, requests in flight, latency, and the answers of \
        APNs by reason; and for operators the workers with their connections and streams, and queues in an outage. \
        The key ? shows the other keys. An operator can pause and resume a queue.

        Workers report what they have sent every five seconds. Waiting jobs are counted up to about 20,000. The 200 \
        most important queues are shown: first those with something due, something sent or a pause, by age and by what \
        is sent. A + behind a number, in JSON is_partial, says that the actual one may be higher. A campaign waits \
        while no worker has begun it. Use / or --filter to see others.

        With --once it prints the figures as tables and ends; in JSON, durations are in seconds. NO_COLOR turns colours off.
        """
    static let examples = ["top", "top acme --sort sent", "top --once --json"]

    @Positional("Only the queues of this tenant.") var tenant: TenantName?
    @Option("Time between two queries of the database.") var every: Duration = .seconds(2)
    @Option("What comes first.") var sort: TopState.Order = .oldest
    @Option("Only queues with this text in their names.") var filter: String?
    @Flag("Print the figures once, as tables.") var once
    var database = DatabaseOptions()

    private static let shortestInterval = Duration.milliseconds(500)

    func run(_ console: Console) async throws {
        guard every >= Self.shortestInterval else { throw UsageError("--every is at least 500ms") }
        guard once || !console.speaksJSON else { throw UsageError("--json needs --once") }
        let environment = ThisProcess.environment
        guard once || TerminalScreen.isThere && environment["TERM"] != "dumb" else {
            throw UsageError("there is no terminal to draw on; --once prints the figures once")
        }
        let (tenant, filter, sort) = (tenant?.text, filter, sort)
        let (isOnce, every) = (once, every)
        let hasColors = environment["NO_COLOR"].map(\.isEmpty) ?? true
        try await database.lastingSession { store, loop in
            let connection = try await store.current()
            let standing = try await connection.loginRights()
            let isOperator = standing?.kind == .operator
            let figures = try await connection.topFigures(of: tenant, matching: filter, withWorkers: isOperator)
            let refusal =
                isOperator ? nil : "\(standing?.login ?? "this login") acts for a tenant: only operators pause queues"
            let state = TopState(order: sort, matching: filter, refusal: refusal)
            guard !isOnce else { return console.show(TopColumns.listings(figures, in: state)) }
            let settings = TopLoop.Settings(
                tenant: tenant, withWorkers: isOperator, every: every, inColor: hasColors)
            await TopLoop(store, on: loop, settings, state: state, figures: figures).run()
        }
    }
}
