import PostgresStore
import QueueCore

/// The pushes to Live Activities that a worker holds for a queue, by recipient; also those of campaigns.
///
/// A claim returns no update that a newer one has replaced. What is held and not sent must not come after one that was
/// claimed later, so it goes back, and the next claim decides.
struct HeldUpdates {
    private var jobs: [Int64: [HeldJob]] = [:]

    /// Adds a job that is held from now on, or removes one that is held no more.
    mutating func note(_ job: HeldJob, isHeld: Bool) {
        for recipient in job.claim.deviceIDs {
            if isHeld {
                jobs[recipient, default: []].append(job)
            } else if let others = jobs[recipient]?.filter({ $0 !== job }) {
                jobs[recipient] = others.isEmpty ? nil : others
            }
        }
    }

    /// The jobs with other updates for recipients to which `job`, which was just claimed, is to be sent instead.
    func replaced(by job: HeldJob) -> [HeldJob] {
        guard job.claim.message.replacesWaiting else { return [] }
        var replaced: [HeldJob] = []
        for (ordinal, recipient) in job.claim.deviceIDs.enumerated() where job.outcomes[ordinal] == 0 {
            for other in jobs[recipient] ?? [] where other.claim.message.id != job.claim.message.id {
                if other.unsent > 0, !replaced.contains(where: { $0 === other }) { replaced.append(other) }
            }
        }
        return replaced
    }
}

extension HeldJob {
    var isOfLiveActivities: Bool { claim.message.pushType == .liveactivity }

    /// Whether the job is an update of Live Activities, and not part of a campaign.
    var isSingleUpdate: Bool { isOfLiveActivities && claim.lane.isShared && claim.lane != .bulk }
}
