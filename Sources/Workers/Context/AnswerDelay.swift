import PostgresStore

/// How long PostgreSQL has not answered statements of one kind: for example, because somebody has locked a whole table.
/// A statement that fails because of a time limit, and is repeated, has had no answer, and likewise one that is
/// refused.
struct AnswerDelay {
    /// The delay after which the worker is not ready.
    private static let longest = Duration.seconds(5)

    private var since: ContinuousClock.Instant?
    private var lastRefusal: String?

    /// Notes that a statement is about to be executed.
    mutating func noteAsked() { since = since ?? .now }

    /// Notes that PostgreSQL has answered, or that there is nothing to ask for any more.
    mutating func noteAnswered() { (since, lastRefusal) = (nil, nil) }

    /// Notes why a statement has failed.
    mutating func noteFailed(_ error: any Error) {
        let isRefusal = (error as? PostgresError).map { $0.isOfServer || !$0.isTransient } ?? true
        lastRefusal = isRefusal ? "\(error)" : nil
    }

    /// Whether there has been no answer for some seconds although one is due.
    var isLong: Bool { since.map { ContinuousClock.now >= $0 + Self.longest } ?? false }

    /// Why PostgreSQL has refused such statements for some seconds; nil if it has not.
    var refusal: String? { isLong ? lastRefusal : nil }
}

/// The delays of what a worker needs from PostgreSQL in order to send.
///
/// Belongs to the engine's event loop.
final class AnswerDelays {
    var polls = AnswerDelay()
    var claims = AnswerDelay()
    var fanOut = AnswerDelay()
    var permits = AnswerDelay()

    /// Why the worker is not ready, although it is connected; nil if it is.
    var obstacle: String? {
        if polls.isLong { return "PostgreSQL has answered no search for jobs for some seconds" }
        if claims.isLong { return "PostgreSQL has leased no job to this worker for some seconds" }
        if fanOut.isLong { return "PostgreSQL has made no jobs of campaigns for this worker for some seconds" }
        if permits.isLong { return "PostgreSQL has granted this worker no permits for some seconds" }
        return nil
    }

    /// What PostgreSQL refuses, and why; nil if it refuses nothing.
    var refusal: String? {
        if let reason = polls.refusal { return "PostgreSQL refuses to search for jobs: \(reason)" }
        if let reason = claims.refusal { return "PostgreSQL refuses to lease jobs: \(reason)" }
        if let reason = fanOut.refusal { return "PostgreSQL refuses to make jobs of campaigns: \(reason)" }
        if let reason = permits.refusal { return "PostgreSQL refuses permits for pushes with a rate limit: \(reason)" }
        return nil
    }
}
