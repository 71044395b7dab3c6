/// What the settler knows of a job whose end or return is not written yet.
struct SettlingState {
    /// Whether the settler is ending the job or giving it back.
    var hasBegun = false
    /// How many rounds of flushes and renewals have begun meanwhile.
    var rounds = 0
    /// Since when another transaction has kept the job from being written.
    var lockedSince: ContinuousClock.Instant?
    /// Whether it was reported that another transaction keeps the job from being written.
    var isLockReported = false
    /// Whether the job was kept because PostgreSQL refused its end or those of others, or because another transaction
    /// prevented its end: see ``RefusedJobs``.
    var isKeptBack = false
    /// How often PostgreSQL has refused to write the job alone.
    var refusals = 0
    /// How many statements PostgreSQL had accepted when it last refused the job without the job being to blame; nil if
    /// that never happened.
    var acceptedBeforeRefusal: Int?
}
