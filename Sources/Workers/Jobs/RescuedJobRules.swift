import PostgresStore
import QueueCore

/// What happens to a job that earlier workers were lost with.
enum RescuedJobRules {
    /// Gives an outcome to recipients that must not be sent to again. Splits a job that has cost too many workers, step
    /// by step, down to the recipient at fault.
    static func apply(to job: HeldJob) {
        let claim = job.claim
        guard claim.previousWatermark > 0 else { return }
        if claim.isAtMostOnce {
            for ordinal in 0..<claim.previousWatermark { job.record(.unknown, for: ordinal) }
        }
        guard claim.wasHolderLost, claim.losses >= EngineSettings.lossesBeforeSplit, job.waiting > 0 else { return }
        if job.waiting > 1 {
            job.splitInHalves()
        } else if claim.losses >= EngineSettings.maximumLosses {
            job.recordLast(.failed(.quarantined))
        }
    }
}

extension ClaimedJob {
    /// Whether the worker that held the job before was lost with it. A worker that lives gives a job back with the
    /// watermark at the first recipient that waits.
    fileprivate var wasHolderLost: Bool {
        outcomes.isEmpty ? previousWatermark > 0 : outcomes.prefix(previousWatermark).contains(0)
    }
}
