import PostgresStore
import QueueCore
import Terminal

/// The campaign that a command refers to.
struct NamedCampaign: ParameterGroup {
    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The campaign's key.") var key: String
    var database = DatabaseOptions()

    /// Runs `body` with the campaign's present state and a connection.
    ///
    /// - Throws: ``Failure`` if the queue has no campaign of that key.
    func withCampaign<Success: Sendable>(
        _ body: @Sendable (CampaignSummary, PostgresConnection) async throws -> Success
    ) async throws -> Success {
        let queue = queue
        return try await database.session { store in
            guard let campaign = try await store.campaign(key, ofQueue: queue) else {
                throw Failure(
                    "there is no campaign \(key) in \(queue); list them with: pushq-admin campaign list \(queue)")
            }
            return try await body(campaign, store)
        }
    }

    /// Carries out an order and says so, or says that it was not necessary.
    ///
    /// - Parameter done: the campaign's state afterwards.
    func carryOut(_ order: CampaignOrder, done: String, _ console: Console) async throws {
        let (wasDone, campaign) = try await withCampaign { campaign, store in
            let wasDone = try await store.order(order, campaign: campaign.key, ofQueue: campaign.queue)
            if wasDone { return (true, campaign) }
            // Asked anew: somebody else may have given the order just before.
            return (false, try await store.campaign(campaign.key, ofQueue: campaign.queue) ?? campaign)
        }
        if !wasDone, campaign.isCancelled, order != .cancel {
            throw Failure("campaign \(key) was cancelled, which cannot be undone: start another one under a new key")
        }
        // Scripts may give an order twice.
        let isAlready =
            switch order {
            case .pause where campaign.isFinished: "has ended: there was nothing left to pause"
            case .resume where campaign.isFinished: "has ended: there was nothing left to resume"
            case .resume: "is not paused"
            case .cancel where !campaign.isCancelled: "has ended: there was nothing left to cancel"
            default: "is already \(done)"
            }
        console.show(
            wasDone ? "\(done) \(key)" : "campaign \(key) \(isAlready)",
            json: ["queue": .string("\(queue)"), "campaign": .string(key), "changed": .bool(wasDone)])
    }
}
