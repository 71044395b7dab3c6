import PostgresStore
import QueueCore
import Terminal

struct ScheduleAddCommand: Command {
    static let name = "add"
    static let users = CommandUsers.tenants
    static let summary = "Adds a schedule: a campaign that workers start repeatedly, by a cron expression."
    static let discussion = """
        A cron expression has five fields: minute, hour, day of month, month and day of week, such as '30 9 * * \
        mon-fri', or is @hourly, @daily, @weekly, @monthly or @yearly. It is in local time of --time-zone, also when \
        the clocks there change. docs/schedules.md explains it.

        The campaign of a run has the key NAME@TIME, with the time of the run in UTC. So it is started once, no matter \
        how many workers there are. A saved audience is looked up at each run.

        If no worker could start a run at its time, --after-outage decides. skip: start it up to an hour late, else \
        not at all. once: start one campaign for all missed runs. all: start one campaign for each missed run.

        Repeating the command changes nothing.
        """
    static let examples = [
        "schedule add acme/com.acme.shop/production weekly-offer --cron '0 9 * * mon' --time-zone Europe/Vienna "
            + "--payload payload.json --audience all",
        "schedule add acme/com.acme.shop/production nightly --cron @daily --payload payload.json --filter \"tag 'vip'\" "
            + "--after-outage once --send-within 6h",
    ]

    @Option("When it runs: five fields, or a word such as @daily.", "CRON") var cron: String
    @Option("The time zone of --cron: a name of the IANA database, such as Europe/Vienna.", "ZONE")
    var timeZone: String = "UTC"
    @Option("What to do about runs that no worker could start at their time.") var afterOutage: AfterOutage = .skip
    @Option("The payload, JSON; - is standard input.") var payload: InputFile
    var audience = AudienceOptions()
    var shares = ShareOptions()
    var bounds = CampaignBounds()
    var options = MessageOptions()
    var local = LocalTimeOptions()
    @Option("Do not send later than this after the start of a run; by default 24 hours.") var sendWithin: Duration?
    @Flag("If there is a different schedule of this name, replace it.") var replace
    var named = NamedSchedule()

    func run(_ console: Console) async throws {
        try local.check()
        try audience.check()
        try shares.check()
        guard payload.path != "-" || !shares.readsStandardInput else {
            throw UsageError("only one of --payload and --variant can be standard input")
        }
        let message = try options.message(of: Payload(payload), for: named.queue, isOfCampaign: true)
        let draft = ScheduleDraft(
            cron: cron, timeZone: timeZone, afterOutage: afterOutage, payload: message.payload,
            options: try campaignOptions(message))
        let (queue, name, replace) = (named.queue, named.name, replace)
        try await named.show(
            console,
            after: { store in
                try await store.addSchedule(draft, as: name, ofQueue: queue, isReplacing: replace)
            })
    }

    /// The given options under the names of the arguments of `pushq.start_campaign`. The values are written as a
    /// producer would write them to add the same schedule in SQL.
    private func campaignOptions(_ message: MessageDraft) throws -> String {
        let given: [(String, JSON?)] = [
            ("filter", audience.condition.map(JSON.string)),
            ("push_type", message.pushType == .alert ? nil : .string(message.pushType.rawValue)),
            ("priority", message.priority.map(JSON.integer)),
            ("expiration", options.expiration.map { $0 == .zero ? .integer(0) : .string($0.shown) }),
            ("collapse_id", message.collapseID.map(JSON.string)),
            ("at_most_once", message.isSentAtMostOnce ? true : nil), ("urgent", message.isUrgent ? true : nil),
            ("max_rate", bounds.maxRate.map { .number($0.perSecond) }),
            ("stop_at_errors", bounds.stopAtErrors.map { .number($0.fraction) }),
            ("quiet_hours", bounds.quietHours.map { .string($0.shown) }),
            ("local_time", local.localTime.map(JSON.string)),
            ("if_passed", local.ifPassed.map { .string($0.rawValue) }),
            ("catch_up", local.catchUp.map { .string($0.shown) }),
            ("default_zone", local.defaultZone.map(JSON.string)),
            ("send_by", sendWithin.map { .string($0.shown) }),
            ("holdout", shares.holdout.map { .number($0.fraction) }),
        ]
        let options = JSON.object(given.compactMap { name, value in value.map { (name, $0) } }).text
        guard let variants = try shares.shares(self.options, for: named.queue).json else { return options }
        // The variants contain payloads, which are JSON already.
        return options.dropLast() + (options == "{}" ? "" : ",") + #""variants":\#(variants)}"#
    }
}

extension AfterOutage: ArgumentChoice {}
