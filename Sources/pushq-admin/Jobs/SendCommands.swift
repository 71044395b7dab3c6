import PostgresStore
import QueueCore
import Terminal

enum SendCommands {
    static let all: [CommandTree] = [.command(Show.self), .command(Cancel.self)]

    struct Show: Command {
        static let name = "show"
        static let users = CommandUsers.readers
        static let summary = "Shows the progress of a send or a broadcast, whom it reached, and what it waits for."
        static let discussion = """
            Its state is the one that pushq.status gives: waiting (the devices of its user are looked up when it is \
            due), running, cancelled or finished.
            """
        static let examples = ["send show acme/com.acme.shop/production 12345"]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The number that 'pushq send' or pushq.send returned.") var send: Int
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, root) = (queue, Int64(send))
            let (progress, refusals, standstill) = try await database.session { store in
                guard let progress = try await store.progress(ofRoot: root, inQueue: queue), progress.isKnown else {
                    throw Failure("there is no send \(root) in \(queue), or it is no longer kept")
                }
                return (
                    progress, try await store.refusals(ofRoot: root, inQueue: queue),
                    progress.isFinished ? nil : try await store.standstill(ofRoot: root, inQueue: queue)
                )
            }
            var facts: [(name: String, value: Cell)] = [
                ("send", .text("\(root)")), ("queue", .text("\(queue)")), ("state", .text(progress.state)),
                ("recipients", .count(progress.total)), ("waiting", .count(progress.waiting)),
            ]
            if progress.total == 1, let device = progress.firstDeviceID {
                facts.append(("apns_id", .text("\(APNsID(root: root, key: device))")))
            }
            facts += OutcomeColumns.facts(of: progress.tally, refusals: refusals)
            if progress.inQuietHours > 0 {
                facts += [
                    ("in_quiet_hours", .count(progress.inQuietHours)), ("released_at", .time(progress.releasedAt)),
                ]
            }
            if let why = progress.whyNobody { facts.append(("reached_nobody", .text(why))) }
            if let standstill { facts.append(("held_up", .text("\(standstill)"))) }
            console.show(facts)
        }
    }

    struct Cancel: Command {
        static let name = "cancel"
        static let users = CommandUsers.tenants
        static let summary = "Stops a send or a broadcast; recipients not sent to yet are recorded as cancelled."
        static let discussion = """
            Workers that hold its jobs stop within moments; some recipients may already have been sent to. Repeating \
            the command changes nothing. If the send has ended, nothing is cancelled, and a warning says so.
            """
        static let examples = ["send cancel acme/com.acme.shop/production 12345"]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The number that 'pushq send' or pushq.send returned.") var send: Int
        var confirmation = Confirmation()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, root) = (queue, Int64(send))
            if !confirmation.isGiven {
                let progress = try await database.session { store in
                    try await store.progress(ofRoot: root, inQueue: queue)
                }
                // A send that is unknown or has ended loses nothing: the order itself says what is wrong.
                if let progress, !progress.isCancelled, !progress.isFinished {
                    let waiting =
                        progress.awaitsRecipients
                        ? "its user" : NumberText.counted(progress.waiting, "recipient")
                    try confirmation.ask(console, "cancels send \(root) for good: \(waiting) will get nothing")
                }
            }
            let cancelled = try await database.session { store in try await store.cancelSend(root, inQueue: queue) }
            console.show([("send", .text("\(root)"))] + cancelled.facts)
        }
    }
}

extension RootProgress {
    /// The state, in the words of `pushq.status`.
    fileprivate var state: String {
        if isCancelled { return "cancelled" }
        if awaitsRecipients { return "waiting" }
        return isFinished ? "finished" : "running"
    }
}

extension Cancellation {
    /// The cancellation as commands show it.
    var facts: [(name: String, value: Cell)] { [("stopped", .count(stopped)), ("held_by_workers", .count(held))] }
}
