import PostgresStore
import QueueCore

/// What becomes of a job that earlier workers were lost with.
enum RescuedJobRules {
    /// Settles what may not be sent again, and splits a job that has cost too many workers, down to the one recipient that does.
    static func apply(to job: HeldJob) {
        let claim = job.claim
        guard claim.uncertainBelow > 0 else { return }
        if claim.isAtMostOnce {
            for ordinal in 0..<claim.uncertainBelow { job.record(.unknown, for: ordinal) }
        }
        guard claim.rescues >= EngineSettings.rescuesBeforeSplit, job.waiting > 0 else { return }
        if job.waiting > 1 {
            job.splitInHalves()
        } else if claim.rescues >= EngineSettings.maximumLosses {
            job.recordLast(.failed(.quarantined))
        }
    }
}
