import PostgresStore
import QueueCore
import Terminal

/// Waits for the end of a campaign, with a progress bar.
struct CampaignWatch: Sendable {
    let key: String
    let queue: String

    /// As often as the bar is redrawn; cheap, since a campaign's counts are one row.
    private static let interval = Duration.milliseconds(100)

    /// Returns the campaign when all its recipients have an outcome.
    ///
    /// - Parameter expected: how many recipients there will be, if that is known; else the total grows with fan-out.
    func untilFinished(
        in store: PostgresConnection, console: Console, expected: Int? = nil
    ) async throws -> CampaignSummary {
        let bar = ProgressBar("sending", total: expected, on: console)
        defer { bar.finish() }
        while true {
            guard let campaign = try await store.campaign(key, ofQueue: queue) else {
                throw Failure("campaign \(key) of \(queue) is gone: its app was removed")
            }
            if campaign.isFinished { return campaign }
            bar.update(campaign.tally.ended, detail: detail(of: campaign))
            try await Task.sleep(for: Self.interval)
        }
    }

    private func detail(of campaign: CampaignSummary) -> String {
        let tally = campaign.tally
        let counts = [("rejected", tally.rejected), ("retried", tally.retried), ("failed", tally.failed)]
        return counts.filter { $0.1 > 0 }.map { "\($0.0) \(NumberText.grouped($0.1))" }.joined(separator: ", ")
    }
}
