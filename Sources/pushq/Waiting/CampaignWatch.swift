import PostgresStore
import QueueCore
import Terminal

/// Waits for the end of a campaign, with a progress bar.
struct CampaignWatch: Sendable {
    let key: String
    let queue: QueueName
    var limit: Duration?

    /// The interval at which the bar is redrawn. Queries this often are cheap, because a campaign's counts are one row.
    private static let interval = Duration.milliseconds(100)

    /// Returns the campaign when all its recipients have an outcome, it has paused itself, or the waiting was stopped.
    ///
    /// - Parameter expected: about how many recipients there will be; nil if unknown. Fan-out creates jobs shortly
    ///   before they are sent, so the campaign itself knows this number late.
    func untilFinished(
        in store: ReconnectingConnection, console: Console, expected: Int? = nil
    ) async throws -> (CampaignSummary, Watch.End) {
        let bar = ProgressBar("sending", total: expected, on: console)
        defer { bar.finish() }
        var watch = Watch(
            root: try await campaign(in: store.current()).id, queue: queue, subject: "campaign \(key)",
            lookAgain: "pushq-admin campaign show \(queue) \(ShellWords.argument(key))", console: console)
        watch.limit = limit
        watch.slowest = Self.interval
        return try await watch.untilFinished(in: store, bar: bar) { store in
            let campaign = try await campaign(in: store)
            return Watch.Progress(
                value: campaign, ended: campaign.tally.ended, total: campaign.total,
                isFinished: campaign.isFinished || campaign.pausedReason != nil,
                expected: campaign.fannedOutAt == nil ? expected.map { max($0, campaign.total) } : campaign.total,
                detail: detail(of: campaign))
        }
    }

    private func campaign(in store: PostgresConnection) async throws -> CampaignSummary {
        guard let campaign = try await store.campaign(key, ofQueue: queue) else {
            throw Failure("campaign \(key) of \(queue) is gone: its app was removed")
        }
        return campaign
    }

    private func detail(of campaign: CampaignSummary) -> String {
        let tally = campaign.tally
        let counts = [("rejected", tally.rejected), ("retried", tally.retried), ("failed", tally.failed)]
        let rate = campaign.maxRate.map { ["at most \(Rate(perSecond: $0).shown)/s"] } ?? []
        return (rate + counts.filter { $0.1 > 0 }.map { "\($0.0) \(NumberText.grouped($0.1))" }).joined(separator: ", ")
    }
}
