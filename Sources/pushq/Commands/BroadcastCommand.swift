import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal

struct BroadcastCommand: Command {
    static let name = "broadcast"
    static let users = CommandUsers.tenants
    static let summary = "Sends an update or the end of a Live Activity to everybody who follows a channel."
    static let discussion = """
        Channels are created by 'pushq-admin channel create'. If several updates wait for a channel, only the newest \
        is sent, unless --keep-waiting is given.
        """
    static let examples = [
        "broadcast acme/com.acme.shop/production --channel dHN0LXNyY2gtY2hubA== --payload update.json",
        "broadcast acme/com.acme.shop/production --channel dHN0LXNyY2gtY2hubA== --payload end.json --expiration 4h --wait",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Option("The channel's ID as Apple gave it.") var channel: ChannelID
    @Option("The payload, JSON; - is standard input.") var payload: InputFile
    @Option(
        "How long APNs stores the push if the channel stores the latest message; 0 for channels that store nothing.")
    var expiration: Duration = .zero
    @Option("10: deliver at once; 5: when the device's power allows it; 1: without waking the device.", "N")
    var priority: Int = BroadcastRules.defaultPriority
    @Flag("Do not replace updates that wait for the channel.") var keepWaiting
    @Flag("Send before everything else that waits in the queue.") var urgent
    @Option("Do not send after this time; by default in 24 hours.") var sendBy: Moment?
    @Option("A key of your own: if you repeat the broadcast with the same key, nothing is sent twice.", "KEY") var key:
        String?
    var waiting = WaitOptions()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        try waiting.check()
        let draft = try draft()
        let (queue, wait, limit, expiration) = (queue, waiting.wait, waiting.timeout, expiration)
        let (root, progress, end, refusals) = try await database.enduringSession { store, lasting in
            var draft = draft
            // The database's time counts, as for everything else: the clock of this machine may differ.
            if expiration != .zero {
                draft.expiration = Self.expiration(expiration, from: try await store.time())
            }
            let root = try await store.broadcast(draft, to: channel, ofQueue: queue, key: key)
            guard wait else {
                let progress = try await console.lookUp("broadcast \(root)") { () async throws(PostgresError) in
                    try await store.progress(ofRoot: root, inQueue: queue)
                }
                return (root, progress, Watch.End.finished, [String: Int]())
            }
            let watch = SendWatch(root: root, queue: queue, console: console, limit: limit)
            let (progress, end) = try await watch.untilFinished(in: lasting)
            return (root, progress, end, try await lasting.current().refusals(ofRoot: root, inQueue: queue))
        }
        if let progress, !progress.isKnown {
            return try SendWatch.report(unkept: ("broadcast", root), waits: wait, on: console)
        }
        var facts: [(name: String, value: Cell)] = [("broadcast", .text("\(root)")), ("channel", .text(channel.text))]
        if let id = progress?.firstDeviceID {
            facts.append(("apns_request_id", .text("\(APNsID(root: root, key: id))")))
        }
        guard wait, let tally = progress?.tally else { return console.show(facts) }
        facts += OutcomeColumns.facts(of: tally, refusals: refusals)
        console.show(facts)
        guard end == .finished else { throw Unsuccessful(.unfinished) }
        guard tally.delivered == 1 else { throw Unsuccessful() }
    }

    private func draft() throws -> BroadcastDraft {
        try Priority.check(option: priority)
        let payload = try Payload(payload)
        let now = Date.now
        var draft = BroadcastDraft(
            payload: payload.text, expiration: expiration == .zero ? 0 : Self.expiration(expiration, from: now))
        draft.priority = priority
        draft.replacesWaiting = !keepWaiting
        draft.isUrgent = urgent
        draft.sendBy = sendBy?.date
        // The database checks whether the expiration fits the channel's policy, because only it knows the policy.
        let broadcast = Broadcast(
            payload: payload.text, priority: priority, expiration: draft.expiration,
            policy: expiration == .zero ? .none : .latest)
        try payload.refuseErrors(among: BroadcastRules.check(broadcast, now: Int64(now.timeIntervalSince1970)))
        return draft
    }

    private static func expiration(_ time: Duration, from now: Date) -> Int64 {
        Int64(now.timeIntervalSince1970 + time.seconds)
    }
}
