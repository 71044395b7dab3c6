import QueueCore

/// The delays of the recipients that one batch sends on in other jobs: one for each kind of retry, so that 1 % failures
/// of many jobs become one job and not many tiny ones.
struct RetryDelays {
    private struct Kind: Hashable {
        let backoff: Backoff
        let step: Int
        let group: Int
    }

    private var drawn: [Kind: Duration] = [:]

    /// The delay of a recipient, drawn at the first of its kind.
    mutating func delay(of retry: HeldJob.Retry, using generator: inout some RandomNumberGenerator) -> Duration {
        switch retry.delay {
        case .fixed(let delay): return delay
        case .backoff(let backoff, let step, let least):
            let kind = Kind(backoff: backoff, step: step, group: retry.group)
            let delay = drawn[kind] ?? backoff.delay(afterAttempt: step, using: &generator)
            drawn[kind] = delay
            return max(delay, least)
        }
    }
}
