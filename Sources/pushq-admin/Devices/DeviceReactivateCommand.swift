import PostgresStore
import QueueCore
import Terminal

struct DeviceReactivateCommand: Command {
    static let name = "reactivate"
    static let users = CommandUsers.operators(
        because: "it overrules what APNs said about devices; register those that are in use")
    static let summary = "Reactivates devices: the given tokens, or all that certain answers of APNs have deactivated."
    static let discussion = """
        Reports of APNs about pushes that were sent before no longer deactivate these devices. This is not a \
        registration: only the app knows that a token is in use. The producer is told whose deactivation is undone \
        ('feedback export', webhooks).

        Without tokens, it undoes the recorded deactivations ('feedback list') that match the options: by reason, \
        campaign, send and time. They are kept for 30 days by default. A device stays inactive if it was deactivated \
        for another reason since then, if its user has logged out, or if it was deactivated by hand. The command says \
        how many devices match and asks first; then it reactivates them in steps. If it is interrupted, run it again.
        """
    static let examples = [
        "device reactivate acme/com.acme.shop/production \(DeviceChanges.exampleToken)",
        "device reactivate acme/com.acme.shop/production --campaign spring --reason BadDeviceToken",
        "device reactivate acme/com.acme.shop/production --since 2026-03-01T09:00:00Z --until 2026-03-01T12:00:00Z --yes",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("Device tokens, in hexadecimal.") var tokens: [DeviceToken]
    @Option("Devices that answers with this reason have deactivated.") var reason: DeviceReason?
    @Option("Devices that answers to this campaign have deactivated.", "KEY") var campaign: String?
    @Option("Devices that answers to this send have deactivated.", "NUMBER") var send: Int?
    @Option("Devices that answers from this time on have deactivated.") var since: Moment?
    @Option("Devices that answers up to this time have deactivated.") var until: Moment?
    @Flag("Show how many there are, and change nothing.") var dryRun
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let isFiltered = reason != nil || campaign != nil || send != nil || since != nil || until != nil
        guard isFiltered || !tokens.isEmpty else {
            throw UsageError(
                "give TOKENS, or select deactivations with --reason, --campaign, --send, --since or --until")
        }
        guard !isFiltered || tokens.isEmpty else {
            throw UsageError("TOKENS cannot be used together with --reason, --campaign, --send, --since and --until")
        }
        guard campaign == nil || send == nil else { throw UsageError("--campaign and --send cannot be used together") }
        guard !(dryRun && confirmation.isGiven) else { throw UsageError("--dry-run and --yes cannot be used together") }
        if let since, let until, since.date > until.date { throw UsageError("--since is later than --until") }
        if isFiltered { return try await undo(console) }
        guard !dryRun else { throw UsageError("--dry-run cannot be used with TOKENS") }
        try await DeviceChanges.set(tokens, isActive: true, queue: queue, database: database, console: console)
    }

    private func undo(_ console: Console) async throws {
        var isDone = confirmation.isGiven
        var result = try await walk(counts: !isDone, console)
        if !isDone, !dryRun, result.inForce > 0 {
            try confirmation.ask(console, "reactivates \(Self.text(of: result, isDone: false))")
            result = try await walk(counts: false, console)
            isDone = true
        }
        console.show(
            Self.text(of: result, isDone: isDone),
            json: [
                "queue": .string("\(queue)"), "deactivations": .integer(result.meant),
                "in_force": .integer(result.inForce),
                "reactivated": .integer(result.reactivated), "dry_run": .bool(!isDone),
            ])
        if isDone, result.locked > 0 {
            throw Failure("other transactions have locked \(NumberText.counted(result.locked, "device")); run it again")
        }
    }

    /// Counts or reactivates all matching devices.
    private func walk(counts: Bool, _ console: Console) async throws -> Reactivation {
        let (queue, campaign) = (queue, campaign)
        var meant = DeactivationFilter()
        (meant.reason, meant.root) = (reason?.reason, send.map(Int64.init))
        (meant.since, meant.until) = (since?.date, until?.date)
        let filter = meant
        return try await database.session { store in
            var filter = filter
            if let campaign {
                guard let root = try await store.root(ofCampaign: campaign, inQueue: queue) else {
                    throw Failure(
                        "there is no campaign “\(campaign)” in \(queue); list them with: pushq-admin campaign list")
                }
                filter.root = root
            }
            let bar = ProgressBar("deactivations", total: nil, on: console)
            defer { bar.finish() }
            return try await store.reactivateDevices(inQueue: queue, filter, counts: counts) { bar.update($0.meant) }
        }
    }

    private static func text(of result: Reactivation, isDone: Bool) -> String {
        let found =
            "\(NumberText.counted(result.inForce, "device")) inactive because of \(NumberText.counted(result.meant, "deactivation"))"
        return isDone ? "reactivated \(NumberText.grouped(result.reactivated)) of \(found)" : found
    }
}

/// The reasons for which an answer of APNs deactivates a device.
enum DeviceReason: String, ArgumentChoice {
    case badDeviceToken = "BadDeviceToken"
    case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
    case unregistered = "Unregistered"
    case expiredToken = "ExpiredToken"

    var reason: Reason { .named(rawValue) }
}
