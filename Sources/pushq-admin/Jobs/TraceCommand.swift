import OperatorViews
import PostgresStore
import QueueCore
import Terminal

struct TraceCommand: Command {
    static let name = "trace"
    static let users = CommandUsers.tenants
    static let summary = "Explains what became of a notification: every attempt, or why there was none."
    static let discussion = """
        Give a token, a user, or the apns-id of one notification. If you know the send or the campaign, give it too. \
        Otherwise the command takes the latest campaigns of the queue, and what the device was in among its latest \
        50,000 jobs; its last lines say what was left out. A send or a campaign alone: its first devices.

        If you know only about when it was sent, name that time with --since and --until. Then the command takes what \
        the device was in among the jobs that ended in that time, the first 50,000 of them, and what still waits. A \
        job ends up to a minute after the answer, or later if the rest of it had to wait.

        The exit code is 1 if the queue has no such token, user, send or campaign, and 0 if the device is known, \
        whether it got anything or not.
        """
    static let examples = [
        "trace acme/com.acme.shop/production --user 4711",
        "trace acme/com.acme.shop/production --user 4711 --campaign spring-sale",
        "trace acme/com.acme.shop/production --user 4711 --since 2026-03-01T14:02:00Z --until 2026-03-01T14:06:00Z",
        "trace acme/com.acme.shop/production --send 12345",
        "trace acme/com.acme.shop/production --campaign spring-sale --limit 3",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Option("The device token, in hexadecimal.") var token: DeviceToken?
    @Option("The user, whose devices are traced.", "KEY") var user: String?
    @Option("The apns-id of one notification.") var apnsID: APNsID?
    @Option("The number of a send or campaign.", "N") var send: Int?
    @Option("The key of a campaign.", "KEY") var campaign: String?
    @Option("Only what was in jobs that ended from this time on.") var since: Moment?
    @Option("Only what was in jobs that ended up to this time.") var until: Moment?
    @Option(
        "Maximum number of campaigns, and of campaigns and sends that the device was in; of devices, for a send or "
            + "campaign alone.") var limit: Count = 10
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (queue, query) = (queue, try query())
        let steps = try await database.session { store in try await store.trace(query, inQueue: queue) }
        console.show(steps, columns: TraceColumns.all)
        // The last step concerns the notification, if there is one: its device may have been deleted since.
        if steps.last?.isFound == false { throw Unsuccessful() }
    }

    private func query() throws -> TraceQuery {
        let subjects: [TraceQuery.Subject?] = [
            token.map { .token($0) }, user.map { .user($0) }, apnsID.map { .device($0.key) },
        ]
        let given = subjects.compactMap { $0 }
        guard given.count <= 1, send == nil || campaign == nil, apnsID == nil || send == nil && campaign == nil else {
            throw UsageError(
                "give one of --token, --user and --apns-id; only --token and --user go with one of --send and --campaign"
            )
        }
        guard let subject = given.first ?? (send != nil || campaign != nil ? .recipients : nil) else {
            throw UsageError("name what to trace: --token, --user, --apns-id, --send or --campaign")
        }
        guard since == nil && until == nil || apnsID == nil && send == nil && campaign == nil else {
            throw UsageError("--since and --until go only with --token or --user, without --send and --campaign")
        }
        let span = try Moment.span(from: since, to: until)
        var query = TraceQuery(subject)
        query.since = span.since
        query.until = span.until
        query.root = apnsID?.root ?? send.map(Int64.init)
        query.campaign = campaign
        query.limit = limit.number
        return query
    }
}
