import QueueCore

/// The delays of recipients that one batch moves to other jobs. All retries of one kind have the same delay, so that
/// the 1 % of recipients that fail in many jobs become one job instead of many tiny ones.
struct RetryDelays {
    private struct Kind: Hashable {
        let backoff: Backoff
        let step: Int
        let group: Int
    }

    private var drawn: [Kind: Duration] = [:]

    /// The delay of a recipient. It is drawn for the first recipient of its kind.
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
