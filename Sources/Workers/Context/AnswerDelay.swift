/// How long PostgreSQL has not answered statements of one kind: for example, because somebody has locked a whole table.
/// A statement that fails because of a time limit, and is repeated, has had no answer.
struct AnswerDelay {
    /// The delay after which the worker is not ready.
    private static let longest = Duration.seconds(5)

    private var since: ContinuousClock.Instant?

    /// Notes that a statement is about to be executed.
    mutating func noteAsked() { since = since ?? .now }

    mutating func noteAnswered() { since = nil }

    /// Whether there has been no answer for some seconds although one is due.
    var isLong: Bool { since.map { ContinuousClock.now >= $0 + Self.longest } ?? false }
}
