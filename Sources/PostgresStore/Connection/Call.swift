import Transport

/// One statement on its way: what is sent, what has come back so far, and who waits for it.
final class Call {
    let statement: Statement
    /// The values of the statement's parameters, in their order.
    let parameters: [Parameter]
    let limit: Duration
    private let continuation: CheckedContinuation<Result<Rows, PostgresError>, Never>
    var timer: Timer?

    /// How many of the next results answer the ``StatementTerms``.
    var awaitedTerms = 0
    /// The next result answers the preparation and not yet the statement.
    var awaitsPreparation = false
    /// It was sent by name and the server did not know the name: it goes as text.
    var isUnprepared = false
    /// This connection has not seen the statement's result yet, or does not remember: the names of its columns are
    /// checked.
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

    /// Tells the caller, once only: the call is taken off its list first.
    func finish(_ answer: Result<Rows, PostgresError>) {
        timer?.cancel()
        continuation.resume(returning: answer)
    }
}

/// A task that waits to have the connection for itself.
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
