import PostgresStore
import QueueCore
import Terminal

struct CampaignCommand: Command {
    static let name = "campaign"
    static let users = CommandUsers.tenants
    static let summary =
        "Starts a campaign: one message to all active devices of a queue, to some of them, or to a list of tokens or users."
    static let discussion = """
        A key starts one campaign only. Repeating the command, after a time-out or from a cron job that ran twice, \
        finds the existing campaign. Using the key for something else is an error.

        With --filter the campaign is for the devices that match, for example: --filter "locale = 'de' and tag 'vip' \
        and seen within 30 days". docs/audiences.md describes filters. Each device is checked once, when the \
        campaign's fan-out reaches it.

        With --users the campaign is for the devices that these users have when the file is read. Users without an \
        active device are counted and shown. A user who is listed twice counts once. A key that is written in \
        quotation marks is read without them; in a file without a header, write the first key so if it has a comma, a \
        semicolon or a tab.

        The payload may be in several languages, {"default": {"aps": …}, "languages": {"de": {"aps": …}}}, and may \
        have placeholders for attributes of the device, {{name}} or {{name|there}}. docs/messages.md describes both.

        With --wait the exit code is 0 when every recipient has an outcome of any kind, and 1 if the campaign was \
        cancelled, has paused itself, has ended with more bad answers than --stop-at-errors allows or has reached \
        nobody, with a line that says why. On a terminal a bar shows the \
        progress; elsewhere a line is written when a tenth more is done, and every 30 seconds.

        With --dry-run nothing is written and nothing is sent. It shows how many recipients there would be, what they \
        would get, the credential and how long it would take. If something would prevent the sending, or if the start \
        would be refused, it says so, and the exit code is 1.

        With --stop-at-errors the campaign pauses itself if a larger share of its answers is bad, once there are 100 \
        answers. An answer is bad if it is not the device's fault: a failure after all attempts, or a rejection for \
        any reason other than a token that is dead, bad or not for the topic. You can resume the campaign; earlier \
        answers then no longer count.

        With --variant a share of the devices gets another payload, and with --holdout a share gets nothing. A \
        device's share depends only on the key and the device, so it stays the same if you repeat the command. \
        'pushq-admin campaign show' shows the counts of each share; docs/variants.md explains more.

        With --local-time each device gets the message at that time in its own time zone; docs/schedules.md says what \
        happens where clocks are put forward or back. A device that moves to another time zone meanwhile gets it once. \
        --expiration counts from the start all the same, which on a given day is that time in the first zone, and \
        --send-by is one time for all. So a campaign is refused that would end before the time has come for more than \
        one in a hundred of its devices; for fewer, it warns.
        """
    static let examples = [
        "campaign acme/com.acme.shop/production --key spring-sale --payload payload.json --audience all --wait",
        "campaign acme/com.acme.shop/production --key spring-sale --payload payload.json --tokens tokens.csv",
        "campaign acme/com.acme.shop/production --key spring-sale --payload payload.json --users users.csv --wait",
        "campaign acme/com.acme.shop/production --key spring-sale --payload payload.json --filter \"tag 'vip'\" --dry-run",
        "campaign acme/com.acme.shop/production --key morning --payload payload.json --audience all --local-time 09:00 "
            + "--default-zone Europe/Vienna",
        "campaign acme/com.acme.shop/production --key autumn --payload a.json --variant b=b.json:45% --holdout 10% "
            + "--audience all",
    ]

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Option("The unique name of the campaign.", "KEY") var key: String
    @Option("The payload, JSON; - is standard input.") var payload: InputFile
    @Option("Device tokens: a CSV file with a column 'token', or one token per line; - is standard input.") var tokens:
        InputFile?
    @Option("Users: a CSV file with a column 'user_key', or one user per line; - is standard input.") var users:
        InputFile?
    var audience = AudienceOptions()
    var shares = ShareOptions()
    var bounds = CampaignBounds()
    @Flag(
        "Only show what would be sent, to how many recipients, how, and how long it would take; send and write nothing."
    ) var dryRun
    var waiting = WaitOptions()
    var options = MessageOptions()
    var times = SendingTimes()
    var local = LocalTimeOptions()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        try waiting.check()
        guard !dryRun || !waiting.wait else { throw UsageError("--dry-run and --wait cannot be used together") }
        try local.check()
        try audience.check(otherwise: [("--tokens FILE", tokens != nil), ("--users FILE", users != nil)])
        try shares.check()
        guard
            [tokens?.path == "-", users?.path == "-", payload.path == "-", shares.readsStandardInput].count(
                where: \.self) < 2
        else {
            throw UsageError("only one of --payload, --variant, --tokens and --users can be standard input")
        }
        let draft = CampaignDraft(
            try options.message(
                of: Payload(payload), for: queue, at: times, dayStart: local.dayStart, isOfCampaign: true),
            key: key, inQueue: queue, where: audience.condition, limits: bounds.limits, clock: local.clock,
            shares: try shares.shares(options, for: queue, at: times))
        let file = try (tokens ?? users)?.devices()
        let isOfUsers = users != nil
        if dryRun {
            return try await DryRun(campaign: draft, options: options, dayStart: local.dayStart, database: database)
                .run(file, isOfUsers: isOfUsers, console)
        }
        let (queue, wait, limit, dayStart) = (queue, waiting.wait, waiting.timeout, local.dayStart)
        try await database.enduringSession { store, lasting in
            let isKnown = try await store.campaign(key, ofQueue: queue) != nil
            var draft = draft
            draft.message = try await options.timed(draft.message, dayStart: dayStart, in: store)
            let started = try await Self.start(draft, file, isOfUsers: isOfUsers, console, in: store)
            if isKnown {
                console.remark("campaign \(key) was started before, with the same message: it is not started again")
            }
            if let rate = bounds.maxRate { try await remark(onChangeTo: rate, console, in: store) }
            guard wait, !started.isInterrupted else {
                console.show(started.facts(key: key, queue: queue))
                guard wait else { return }
                console.remark("interrupted when campaign \(key) was being started; it continues")
                throw Unsuccessful(.unfinished)
            }
            let expected: Int? =
                if let listed = started.devices {
                    Int((Double(listed) * (1 - (draft.shares.holdout ?? 0))).rounded())
                } else if isKnown, draft.filter != nil {
                    // The saved audience may have been changed or removed since the campaign was started.
                    nil
                } else {
                    // Only progress is shown by it, so no error of it ends the command.
                    try? await store.countRecipients(of: draft)
                }
            let (campaign, end) = try await CampaignWatch(key: key, queue: queue, limit: limit)
                .untilFinished(in: lasting, console: console, expected: expected)
            let refusals = try await lasting.current().refusals(ofRoot: campaign.id, inQueue: queue)
            console.show(
                started.facts(key: key, queue: queue)
                    + [("state", .text(campaign.state)), ("recipients", .count(campaign.total))]
                    + OutcomeColumns.facts(of: campaign.tally, refusals: refusals))
            guard end == .finished else { throw Unsuccessful(.unfinished) }
            guard let failure = try await failure(of: campaign, in: lasting.current()) else { return }
            console.remark(failure)
            throw Unsuccessful()
        }
    }

    /// Why a campaign that is waited for has not done what it should, and what can be done; nil if it has.
    private func failure(of campaign: CampaignSummary, in store: PostgresConnection) async throws -> String? {
        if let reason = campaign.tooManyBad {
            return "campaign \(key) has ended with too many bad answers: \(reason). Nothing was left to pause"
        }
        if let reason = campaign.pausedReason, !campaign.isFinished {
            return "campaign \(key) has paused itself: \(reason). Resume it with: "
                + "pushq-admin campaign resume \(queue) \(ShellWords.argument(key))"
        }
        if campaign.isCancelled { return "campaign \(key) was cancelled: \(campaign.notSentTo)" }
        guard campaign.total == 0 else { return nil }
        let reason = try await store.whyNobody(isReachedBy: campaign.id, inQueue: queue)
        let why = reason.map { ": \($0)" } ?? ""
        return "campaign \(key) reached nobody\(why)\(why.hasSuffix("?") ? "" : ".") Its key is used: another attempt "
            + "needs another key; --dry-run shows whom it would reach"
    }

    /// Says that a repeated call does not change the rate of a campaign, because the producer may expect that.
    private func remark(onChangeTo rate: Rate, _ console: Console, in store: PostgresConnection) async throws {
        guard let campaign = try await store.campaign(key, ofQueue: queue), !campaign.isFinished,
            campaign.maxRate != rate.perSecond
        else { return }
        let kept = campaign.maxRate.map { "its rate of \(Rate(perSecond: $0).shown)/s" } ?? "having no rate of its own"
        console.remark(
            "campaign \(key) was started before and keeps \(kept); change that with: "
                + "pushq-admin campaign set \(queue) --max-rate \(rate.shown) \(ShellWords.argument(key))")
    }

    /// The campaign that was started.
    private struct Started {
        let id: Int64
        /// The counts of a campaign to users.
        var users: UserCounts?
        /// The number of devices in the file; nil without a file.
        var devices: Int?
        /// Whether Ctrl-C came when the campaign was being started, too late to keep it from being started.
        var isInterrupted = false

        func facts(key: String, queue: QueueName) -> [(name: String, value: Cell)] {
            [("campaign", .text("\(id)")), ("queue", .text("\(queue)")), ("key", .text(key))] + (users?.facts ?? [])
        }
    }

    private static func start(
        _ campaign: CampaignDraft, _ file: DeviceFile?, isOfUsers: Bool, _ console: Console,
        in store: PostgresConnection
    ) async throws -> Started {
        guard let file else { return Started(id: try await store.startCampaign(campaign)) }
        let bar = ProgressBar("reading", total: nil, on: console)
        defer { bar.finish() }
        var read = 0
        // The list that was loaded so far is abandoned, or it would count for the tenant's quota for a day.
        let interruption = Interruption(patience: .seconds(5))
        func note(_ count: Int) throws {
            // A call before this one may have started it.
            if interruption.isRequested { throw Failure("interrupted; this call started no campaign") }
            read = count
            bar.update(count)
        }
        if isOfUsers {
            let (id, counts) = try await store.startCampaign(campaign, toUsersIn: file, progress: note)
            return Started(
                id: id, users: counts, devices: counts.devices, isInterrupted: interruption.isRequested)
        }
        let id = try await store.startCampaign(campaign, toDevicesIn: file, progress: note)
        return Started(id: id, devices: read, isInterrupted: interruption.isRequested)
    }
}

extension UserCounts {
    /// The counts as commands show them.
    var facts: [(name: String, value: Cell)] {
        [("users", .count(users)), ("users_without_device", .count(withoutDevice))]
    }
}
