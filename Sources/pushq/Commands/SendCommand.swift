import PostgresStore
import QueueCore
import Terminal

struct SendCommand: Command {
    static let name = "send"
    static let users = CommandUsers.tenants
    static let summary = "Sends one push to some devices, or to all devices of some users."
    static let discussion = """
        If none of the users has an active device, that is not an error: the send is recorded without recipients, together \
        with the reason. With --wait the exit code is then 1.
        """
    static let examples = [
        "send acme/com.acme.shop/production --token \(exampleToken) --alert 'Your order is on its way'",
        "send acme/com.acme.shop/production --user 4711 --payload payload.json --wait",
        "send acme/com.acme.shop/production --tokens tokens.txt --payload payload.json",
    ]
    private static let exampleToken = String(repeating: "0123456789abcdef", count: 4)

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Option("A device token, in hexadecimal.") var token: [DeviceToken]
    @Option("Device tokens: a CSV file with a column 'token', or one token per line; - is standard input.")
    var tokens: InputFile?
    @Option("All active devices of this user.", "KEY") var user: [String]
    @Option("Send an alert with this text.") var alert: String?
    @Option("With --alert: increase the app's badge by this number, on each device separately.", "N")
    var badgeIncrement: Int?
    @Option("The payload, JSON; - is standard input.") var payload: InputFile?
    @Option("A key of your own: if you repeat the send with the same key, nothing is sent twice.", "KEY") var key:
        String?
    @Option("A traceparent of W3C Trace Context, which 'pushq-admin trace' shows.", "TEXT") var traceparent:
        TraceParent?
    @Flag("Replace updates of a Live Activity that still wait for the same tokens.") var replaceWaiting
    var waiting = WaitOptions()
    var options = MessageOptions()
    var times = SendingTimes()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        try waiting.check()
        let recipients = try recipients()
        let message = try options.message(of: readPayload(), for: queue, at: times)
        if message.payload.contains("{{") {
            console.remark("only campaigns fill placeholders such as {{name}}: this push shows its braces as they are")
        }
        let (queue, options) = (queue, options)
        let (wait, limit) = (waiting.wait, waiting.timeout)
        let sent = try await database.enduringSession { store, lasting in
            let message = try await options.timed(message, in: store)
            let root = try await store.send(
                message, to: recipients, ofQueue: queue, replacesWaiting: replaceWaiting, key: key,
                traceparent: traceparent)
            var sent = Sent(root: root)
            if wait {
                let watch = SendWatch(root: root, queue: queue, console: console, limit: limit)
                (sent.progress, sent.end) = try await watch.untilFinished(in: lasting)
                sent.refusals = try await lasting.current().refusals(ofRoot: root, inQueue: queue)
            } else {
                sent.progress = try await console.lookUp("send \(root)") { () async throws(PostgresError) in
                    try await store.progress(ofRoot: root, inQueue: queue)
                }
            }
            return sent
        }
        try report(sent, on: console)
    }

    private struct Sent: Sendable {
        let root: Int64
        var progress: RootProgress?
        var end = Watch.End.finished
        var refusals: [String: Int] = [:]
    }

    private func recipients() throws -> Recipients {
        guard tokens?.path != "-" || payload?.path != "-" else {
            throw UsageError("only one of --payload and --tokens can be standard input")
        }
        switch (token.isEmpty, tokens, user.isEmpty) {
        case (false, nil, true): return .tokens(token)
        case (true, let file?, true):
            let tokens = try file.tokens()
            if tokens.isEmpty { throw Failure("\(file.name): there are no tokens in it") }
            return .tokens(tokens)
        case (true, nil, false): return .users(user)
        case (true, nil, true): throw UsageError("--token HEX, --tokens FILE or --user KEY is missing")
        default: throw UsageError("--token, --tokens and --user cannot be used together")
        }
    }

    private func readPayload() throws -> Payload {
        if let badgeIncrement, !(1...99).contains(badgeIncrement) {
            throw UsageError("--badge-increment \(badgeIncrement) is out of range: use a whole number, 1 to 99")
        }
        switch (alert, payload) {
        case (let text?, nil): return Payload(alert: text, badgeIncrement: badgeIncrement)
        case (nil, .some) where badgeIncrement != nil:
            throw UsageError(#"--badge-increment goes with --alert; in a payload, write "badge": {"increment": 1}"#)
        case (nil, let file?): return try Payload(file)
        case (nil, nil): throw UsageError("--alert TEXT or --payload FILE is missing")
        case (_?, _?): throw UsageError("--alert and --payload cannot be used together")
        }
    }

    private func report(_ sent: Sent, on console: Console) throws {
        if let progress = sent.progress, !progress.isKnown {
            return try SendWatch.report(unkept: ("send", sent.root), waits: waiting.wait, on: console)
        }
        let total = sent.progress?.total ?? 0
        var facts: [(name: String, value: Cell)] = [
            ("send", .text("\(sent.root)")), ("recipients", .count(sent.progress?.total)),
        ]
        if total == 1, let device = sent.progress?.firstDeviceID {
            facts.append(("apns_id", .text("\(APNsID(root: sent.root, key: device))")))
        }
        if let why = sent.progress?.whyNobody { facts.append(("reached_nobody", .text(why))) }
        guard waiting.wait, let tally = sent.progress?.tally else { return console.show(facts) }
        facts += OutcomeColumns.facts(of: tally, refusals: sent.refusals)
        console.show(facts)
        guard sent.end == .finished else { throw Unsuccessful(.unfinished) }
        guard total > 0, tally.delivered == total else { throw Unsuccessful() }
    }
}
