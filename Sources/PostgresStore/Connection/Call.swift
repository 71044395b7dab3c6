import Transport

/// One statement in flight: what is sent, what has come back so far, and the caller that waits for it.
final class Call {
    let statement: Statement
    /// The values of the statement's parameters, in their order.
    let parameters: [Parameter]
    let limit: Duration
    private let continuation: CheckedContinuation<Result<Rows, PostgresError>, Never>
    var timer: Timer?

    /// How many of the next results answer ``StatementTerms``.
    var awaitedTerms = 0
    /// Whether the next result answers the preparation and not yet the statement.
    var awaitsPreparation = false
    /// Whether the statement must go as text, because it was sent by name and failed only because of the name.
    var isUnprepared = false
    /// Whether to check the names of the result's columns, because this connection has not seen or not remembered a
    /// result of the statement.
    var checksNames = false
    var rows: Rows?
    var failure: ServerError?

    init(
        _ statement: Statement, _ parameters: [Parameter], limit: Duration,
        _ continuation: CheckedContinuation<Result<Rows, PostgresError>, Never>
    ) {
        self.statement = statement
        self.parameters = parameters
        self.limit = limit
        self.continuation = continuation
    }

    /// Answers the caller. It is called only once, because the call is removed from its list first.
    func finish(_ answer: Result<Rows, PostgresError>) {
        timer?.cancel()
        continuation.resume(returning: answer)
    }
}

/// A task that waits to have the connection to itself.
final class Taker {
    let task: String
    private let continuation: CheckedContinuation<Result<Void, PostgresError>, Never>
    var timer: Timer?

    init(_ task: String, _ continuation: CheckedContinuation<Result<Void, PostgresError>, Never>) {
        self.task = task
        self.continuation = continuation
    }

    func finish(_ answer: Result<Void, PostgresError>) {
        timer?.cancel()
        continuation.resume(returning: answer)
    }
}
