import OperatorViews
import PostgresStore
import QueueCore
import Terminal

enum CampaignCommands {
    static let all: [CommandTree] = [
        .command(List.self), .command(Show.self), .command(SetRate.self), .command(Pause.self), .command(Resume.self),
        .command(Cancel.self), .command(CampaignRecipientsCommand.self), .command(RetryFailed.self),
    ]

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.readers
        static let summary = "Lists campaigns, the latest first."
        static let discussion = """
            With --matching or --state, it lists those among the latest 10,000 campaigns of the queue, or of all queues.
            """
        static let examples = [
            "campaign list", "campaign list acme/com.acme.shop/production --limit 100", "campaign list --state paused",
        ]

        @Positional("Only those of this queue.") var queue: QueueName?
        @Option("List only those with this text in their keys.", "TEXT") var matching: String?
        @Option("List only those in this state.") var state: StateName<CampaignState>?
        @Option("Maximum number of rows.") var limit: Count = 20
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, matching, state, limit) = (queue, matching, state?.state, limit.number)
            console.show(
                try await database.session { store in
                    try await store.campaigns(ofQueue: queue, matching: matching, state: state, limit: limit)
                },
                columns: CampaignColumns.all)
        }
    }

    struct Show: Command {
        static let name = "show"
        static let users = CommandUsers.readers
        static let summary = "Shows the progress of a campaign, and why recipients were refused."
        static let examples = ["campaign show acme/com.acme.shop/production spring-sale"]

        var named = NamedCampaign()

        func run(_ console: Console) async throws {
            let (campaign, refusals, standstill, shares) = try await named.withCampaign { campaign, store in
                let queue = campaign.queue
                return (
                    campaign, try await store.refusals(ofRoot: campaign.id, inQueue: queue),
                    campaign.isFinished ? nil : try await store.standstill(ofRoot: campaign.id, inQueue: queue),
                    try await store.shares(ofCampaign: campaign.id, inQueue: queue)
                )
            }
            var facts: [(name: String, value: Cell)] = [
                ("queue", .text("\(campaign.queue)")), ("key", .text(campaign.key)), ("state", .text(campaign.state)),
                ("total", .count(campaign.total)), ("waiting", .count(campaign.waiting)),
                ("max_rate", .number(campaign.maxRate)),
            ]
            if let filter = campaign.filter { facts.insert(("filter", .text(filter)), at: 2) }
            if let time = campaign.localTime {
                facts += [
                    ("local_time", .text(time)), ("next_wave", .time(campaign.nextWaveAt)),
                    ("left_out", .count(campaign.leftOut)),
                ]
            }
            if campaign.inQuietHours > 0 {
                facts += [
                    ("in_quiet_hours", .count(campaign.inQuietHours)), ("released_at", .time(campaign.releasedAt)),
                ]
            }
            if shares.contains(where: { $0.name == "holdout" }) { facts.append(("held_out", .count(campaign.heldOut))) }
            if let share = campaign.stopAtErrors {
                facts.append(("stop_at_errors", Share(fraction: share).cell))
            }
            if let reason = campaign.pausedReason, !campaign.isFinished {
                facts.append(("paused_because", .text(reason)))
            }
            if let reason = campaign.tooManyBad { facts.append(("too_many_bad", .text(reason))) }
            facts += OutcomeColumns.facts(of: campaign.tally, refusals: refusals)
            if campaign.inNoJob > 0 { facts.append(("cancelled_in_no_job", .count(campaign.inNoJob))) }
            facts += [
                ("created_at", .time(campaign.createdAt)), ("starts_at", .time(campaign.startsAt)),
                ("fanned_out_at", .time(campaign.fannedOutAt)),
            ]
            if campaign.isCancelled { facts.append(("not_sent_to", .text(campaign.notSentTo))) }
            if let standstill { facts.append(("held_up", .text("\(standstill)"))) }
            console.show(facts, "shares", shares, columns: Self.shareColumns)
        }

        /// The columns of a campaign with variants or a holdout.
        private static var shareColumns: [Column<ShareSummary>] {
            [
                Column("share") { .text($0.name) },
                Column("of_devices") { Share(fraction: $0.fraction).cell },
                Column("total") { .count($0.total) },
                Column("waiting") { .count($0.waiting) },
            ] + OutcomeColumns.outcomes(\.tally)
        }
    }

    struct SetRate: Command {
        static let name = "set"
        static let users = CommandUsers.tenants
        static let summary = "Changes the rate of a campaign; workers apply it within seconds."
        static let discussion = """
            The rate is over all workers. The rates of the campaign's queue and tenant still apply. Pushes that wait \
            for this rate do not block other pushes and campaigns of the queue.

            A campaign that has ended is not changed, unless it has failed recipients: 'campaign retry-failed' sends \
            to them at this rate.
            """
        static let examples = [
            "campaign set acme/com.acme.shop/production spring-sale --max-rate 250",
            "campaign set acme/com.acme.shop/production spring-sale --max-rate none",
        ]

        @Option("Maximum number of pushes per second: 250, 0.5 or 15000/min; none lifts the limit.") var maxRate:
            RateLimitSetting
        var named = NamedCampaign()

        func run(_ console: Console) async throws {
            let rate = maxRate.rate?.perSecond
            let wasSet = try await named.withCampaign { campaign, store in
                try await store.setRate(rate, ofCampaign: campaign.key, ofQueue: campaign.queue)
            }
            console.show(
                wasSet ? "set \(named.key)" : "campaign \(named.key) has ended: there was nothing left to limit",
                json: [
                    "queue": .string("\(named.queue)"), "campaign": .string(named.key), "changed": .bool(wasSet),
                ])
        }
    }

    struct Pause: Command {
        static let name = "pause"
        static let users = CommandUsers.tenants
        static let summary = "Pauses a campaign; pushes that were sent are not affected."
        static let examples = ["campaign pause acme/com.acme.shop/production spring-sale"]

        var named = NamedCampaign()

        func run(_ console: Console) async throws {
            try await named.carryOut(.pause, done: "paused", console)
        }
    }

    struct Resume: Command {
        static let name = "resume"
        static let users = CommandUsers.tenants
        static let summary = "Resumes a paused campaign."
        static let discussion = """
            If the campaign's time to send ended while it was paused, give it a new one with --send-by. If that is \
            before the local time of some devices, they get nothing, and a warning says how many they are.
            """
        static let examples = ["campaign resume acme/com.acme.shop/production spring-sale"]

        @Option("Do not send after this time; by default the one that the campaign has.") var sendBy: Moment?
        var named = NamedCampaign()

        func run(_ console: Console) async throws {
            try await named.carryOut(.resume(sendBy: sendBy?.date), done: "resumed", console)
        }
    }

    struct Cancel: Command {
        static let name = "cancel"
        static let users = CommandUsers.tenants
        static let summary = "Cancels a campaign permanently; recipients not sent to yet are recorded as cancelled."
        static let examples = ["campaign cancel acme/com.acme.shop/production spring-sale"]

        var named = NamedCampaign()
        var confirmation = Confirmation()

        func run(_ console: Console) async throws {
            if !confirmation.isGiven {
                let campaign = try await named.withCampaign { campaign, _ in campaign }
                if !campaign.isCancelled, !campaign.isFinished {
                    try confirmation.ask(
                        console, "cancels campaign \(named.key) for good: \(Self.losers(of: campaign)) will get nothing"
                    )
                }
            }
            try await named.carryOut(.cancel, done: "cancelled", console)
        }

        /// The waiting recipients, as far as they are in jobs already.
        private static func losers(of campaign: CampaignSummary) -> String {
            let waiting = NumberText.counted(campaign.waiting, "recipient")
            guard campaign.fannedOutAt == nil else { return waiting }
            return campaign.waiting == 0
                ? "its recipients, who are in no job yet," : "\(waiting), and those who are in no job yet,"
        }
    }

    struct RetryFailed: Command {
        static let name = "retry-failed"
        static let users = CommandUsers.tenants
        static let summary = "Sends again, once, to the recipients of a campaign that have failed so far."
        static let discussion = """
            The failed recipients go into new jobs, which are sent within 24 hours with a new count of attempts. They \
            keep their apns-id. If you repeat the command, it sends only to those that have failed since.

            Recipients are kept as long as the tenant's history. To those that are no longer kept nothing is sent; if \
            that are all, the command fails.

            If the campaign is paused, or something else holds it up, the pushes wait, and 'held up' says why.
            """
        static let examples = ["campaign retry-failed acme/com.acme.shop/production spring-sale"]

        var named = NamedCampaign()
        var confirmation = Confirmation()

        func run(_ console: Console) async throws {
            let (queue, key, asks) = (named.queue, named.key, !confirmation.isGiven)
            let (campaign, failures) = try await named.withCampaign { campaign, store in
                (campaign, asks ? try await Self.failures(of: campaign, store) : (kept: 0, lost: 0))
            }
            // If the campaign cannot be retried, the order itself says so.
            if asks, !campaign.isCancelled, failures.kept > 0 {
                let failed = NumberText.counted(failures.kept, "failed recipient")
                let lost = failures.lost > 0 ? "; \(failures.lost) more are no longer kept" : ""
                try confirmation.ask(console, "sends again to \(failed) of campaign \(key)\(lost)")
            }
            let (count, heldUp, now, lost) = try await named.database.session { store in
                let count = try await store.retryFailed(ofCampaign: key, inQueue: queue)
                // Asked anew: somebody else may have sent again to those that had failed before.
                let now = try await store.campaign(key, ofQueue: queue) ?? campaign
                return (
                    count, try await store.heldUp(count > 0 ? [campaign.id] : [], inQueue: queue), now,
                    try await Self.failures(of: now, store).lost
                )
            }
            if lost > 0 {
                console.remark("not sent again: \(NumberText.counted(lost, "failed recipient")), no longer kept")
            }
            if now.failedInJobs > 0 {
                let failed = NumberText.counted(now.failedInJobs, "failed recipient")
                console.remark("not sent again: \(failed) in jobs that have not ended; repeat this when they have")
            }
            console.show(
                [("queue", .text("\(queue)")), ("campaign", .text(key)), ("sent_again", .count(count))]
                    + JobRetryCommand.facts(heldUp: heldUp))
        }

        /// How many of a campaign's failed recipients in ended jobs can be sent to again, and how many are no longer
        /// kept. Those that fail while this looks count as kept.
        private static func failures(
            of campaign: CampaignSummary, _ store: PostgresConnection
        ) async throws -> (kept: Int, lost: Int) {
            var jobs = JobFilter()
            jobs.campaign = campaign.key
            let kept = try await store.retryFailedJobs(ofQueue: campaign.queue, jobs, counts: true).recipients
            return (kept, max(0, campaign.tally.failed - campaign.failedInJobs - kept))
        }
    }
}
