import PostgresStore
import QueueCore

/// Decides what happens to a job that was claimed.
enum ClaimedJobRules {
    enum Fate: Equatable {
        /// The job is sent.
        case send
        /// The job cannot be read: nothing of it is sent.
        case quarantine(damage: String)
        /// Every recipient has an outcome already.
        case end
        /// Nothing of the job is sent, for this reason.
        case close(HeldJob.Closing)
    }

    /// What the worker knows about the job's queue at that moment.
    struct Circumstances {
        /// Whether the queue may send, and the worker is not draining.
        var maySend = true
        /// How long the job has to wait, if its gateway is out of reach while that of the queue's other jobs is not.
        var delay: Duration?
    }

    /// Decides about a job before anything of it is sent. Gives recipients that must not be sent to again their
    /// outcome.
    static func decide(over job: HeldJob, _ circumstances: Circumstances) -> Fate {
        let claim = job.claim
        if let damage = claim.damage { return .quarantine(damage: damage) }
        if claim.isCancelled { return .close(.cancelled) }
        // While a campaign is paused, its time does not run out for the jobs that it has: it may get a new end.
        if claim.sendWithin <= .zero, !claim.isPaused { return .close(.expired) }
        RescuedJobRules.apply(to: job)
        if job.waiting == 0 { return .end }
        if claim.isPaused { return .close(.yielded(after: Settlement.pausedDelay)) }
        // The job goes back into the lane that its campaign has for itself by now.
        if claim.isElsewhere { return .close(.yielded(after: .zero)) }
        if !circumstances.maySend { return .close(.yielded(after: .zero)) }
        if let delay = circumstances.delay { return .close(.yielded(after: delay)) }
        return .send
    }
}
