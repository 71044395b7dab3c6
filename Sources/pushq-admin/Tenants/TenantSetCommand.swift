import PostgresStore
import Terminal

struct TenantSetCommand: Command {
    static let name = "set"
    static let users = CommandUsers.operatorsOfTenants
    static let summary = "Changes settings of a tenant; workers apply them within seconds."
    static let discussion = """
        The rate limits all queues of the tenant together; its queues may also have rates of their own. The weight is \
        the tenant's share when a worker has more to send than it can: tenants share the worker by their weights, no \
        matter how many queues each has, and a tenant's queues share what it gets by theirs. The number of connections \
        limits what one worker opens to APNs for all of its queues together; where it is reached, they take turns.

        History is results, recipients and messages; it is kept for 7 days by default. Feedback is what APNs reported \
        about devices; it is kept for 30 days by default. The key of a send is kept for 30 days after the send was \
        due: so long, a repeated call with this key sends nothing. Upkeep deletes older rows within an hour. If this would \
        delete existing rows, the command asks first. The rows of a day are stored together for all tenants: if one \
        tenant keeps days longer than the others, the rows of the others are deleted one by one, which costs more \
        than dropping a day.

        Quotas limit what a tenant has in all its queues together. A call that would exceed a quota is refused \
        (docs/sql-api.md); existing data stays. Workers count about every ten seconds, so a tenant can exceed a quota \
        by what it adds in that time. 'tenant show' shows how much is used.
        """
    static let examples = [
        "tenant set acme --rate 500 --burst 50", "tenant set acme --no-rate --weight 2",
        "tenant set acme --connections 20",
        "tenant set acme --history-days 3 --feedback-days 90",
        "tenant set acme --max-devices 100000 --max-waiting 1000000 --max-calls 500",
        "tenant set acme --history-days usual",
    ]

    @Positional("Its name.") var tenant: TenantName
    @Option("Maximum number of pushes per second, over all its queues and all workers; may be a fraction.") var rate:
        Rate?
    @Option("Maximum number of pushes at once after a quiet time, with --rate. By default a tenth of the rate.")
    var burst: Double?
    @Flag("Remove the limit.") var noRate
    @Option("Its share of a worker, relative to other tenants: 0.001 to 1000.") var weight: Double?
    @Option("Maximum number of connections of one worker, over all its queues: 1 to 10000, or none for no limit.")
    var connections: QuotaArgument?
    @Option(
        """
        Days that history is kept after the day it was written: 1 to 3650, or usual for the default. Hundreds of days \
        slow down status and upkeep for all tenants, and need a larger max_locks_per_transaction (docs/doctor.md).
        """)
    var historyDays: RetentionArgument?
    @Option("Days that feedback is kept after the day it was written: 1 to 3650, or usual for the default.")
    var feedbackDays: RetentionArgument?
    @Option("Days that entries of 'pushq-admin audit' about it are kept: 1 to 3650, or usual for the default.")
    var auditDays: RetentionArgument?
    @Option("Days that the keys of its sends are kept after these were due: 1 to 3650, or usual for the default.")
    var keyDays: RetentionArgument?
    @Option("Maximum number of active devices, or none for no limit.") var maxDevices: QuotaArgument?
    @Option("Maximum number of recipients that are still to be sent to.") var maxWaiting: QuotaArgument?
    @Option("Maximum number of bytes of payload in a day (UTC).") var maxDayBytes: QuotaArgument?
    @Option("Maximum number of calls of the SQL functions in a second: 1 to 1000000.") var maxCalls: QuotaArgument?
    @Option("Maximum number of campaigns that have not put all recipients into jobs yet.") var maxCampaigns:
        QuotaArgument?
    @Option("Maximum number of schedules.") var maxSchedules: QuotaArgument?
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        let (name, change) = (tenant.text, try change())
        if !confirmation.isGiven, change.deletes {
            let loss = try await database.session { store in try await store.loss(ofTenant: name, by: change) }
            guard let loss else { throw Failure.noTenant(name) }
            if !loss.isNothing { try confirmation.ask(console, "deletes of \(name), within the hour: \(loss.text)") }
        }
        guard try await database.session({ store in try await store.setTenant(name, to: change) }) else {
            throw Failure.noTenant(name)
        }
        console.show("set \(name)", json: ["tenant": .string(name)])
    }

    private func change() throws(UsageError) -> TenantChange {
        var change = TenantChange()
        change.history = historyDays?.retention
        change.feedback = feedbackDays?.retention
        change.audit = auditDays?.retention
        change.keys = keyDays?.retention
        change.weight = try weight.bounded(0.001...1000, "--weight")
        change.connections = connections?.quota
        if case .limit(let number) = change.connections {
            _ = try Int?(Int(number)).bounded(1...10_000, "--connections")
        }
        guard burst == nil || rate != nil else { throw UsageError("--burst needs --rate") }
        guard !noRate || rate == nil else { throw UsageError("--no-rate cannot be used with --rate") }
        _ = try (rate?.perSecond).bounded(Rate.limits, "--rate")
        if let rate { change.rate = .limit(rate.perSecond, burst: try burst.bounded(1...1_000_000, "--burst")) }
        if noRate { change.rate = .noLimit }
        change.quotas = try quotas()
        guard !change.isEmpty else { throw UsageError("no setting is given") }
        return change
    }

    private func quotas() throws(UsageError) -> QuotaChange {
        var change = QuotaChange()
        change.devices = maxDevices?.quota
        change.waiting = maxWaiting?.quota
        change.dayBytes = maxDayBytes?.quota
        change.calls = maxCalls?.quota
        change.campaigns = maxCampaigns?.quota
        change.schedules = maxSchedules?.quota
        if case .limit(let calls) = change.calls { _ = try Int?(Int(calls)).bounded(1...1_000_000, "--max-calls") }
        if case .limit(let campaigns) = change.campaigns {
            _ = try Int?(Int(campaigns)).bounded(0...1_000_000, "--max-campaigns")
        }
        if case .limit(let schedules) = change.schedules {
            _ = try Int?(Int(schedules)).bounded(0...1_000_000, "--max-schedules")
        }
        return change
    }
}

extension RetentionLoss {
    /// What would be deleted, for a question: `the results, recipients and messages of 12 jobs from before 2026-11-20`.
    fileprivate var text: String {
        [
            (jobs, "the results, recipients and messages of ", "job", "jobs"),
            (reports, "", "report about devices", "reports about devices"),
            (entries, "", "entry of the audit", "entries of the audit"),
            (keys, "", "key of sends", "keys of sends"),
        ]
        .filter { part, _, _, _ in part.count > 0 }
        .map { part, words, one, many in
            let count = (part.count < Self.countedTo ? "" : "at least ") + NumberText.grouped(part.count)
            return "\(words)\(count) \(part.count == 1 ? one : many) from before \(part.before)"
        }
        .joined(separator: ", and ")
    }
}

/// A quota as an argument: a number, or `none` for no limit.
struct QuotaArgument: ArgumentValue {
    let quota: Quota

    static let placeholder = "N|none"

    var shown: String {
        switch quota {
        case .limit(let number): "\(number)"
        case .none: "none"
        }
    }

    static func parse(_ text: String) throws(InvalidValue) -> QuotaArgument {
        if text == "none" { return QuotaArgument(quota: .none) }
        guard let number = try? Int.parse(text), number >= 0 else {
            throw InvalidValue("must be a whole number from 0 to \(Int.max), or none")
        }
        return QuotaArgument(quota: .limit(Int64(number)))
    }
}

/// How long something is kept, as an argument: a number of days, or `usual`.
struct RetentionArgument: ArgumentValue {
    let retention: RetentionDays

    static let placeholder = "DAYS"

    var shown: String {
        switch retention {
        case .usual: "usual"
        case .days(let count): "\(count)"
        }
    }

    static func parse(_ text: String) throws(InvalidValue) -> RetentionArgument {
        if text == "usual" { return RetentionArgument(retention: .usual) }
        guard let count = Int(text), (1...3650).contains(count) else {
            throw InvalidValue("must be 1 to 3650, or usual")
        }
        return RetentionArgument(retention: .days(count))
    }
}
