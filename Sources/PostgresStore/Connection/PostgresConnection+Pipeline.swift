import CPostgres
import Transport

extension PostgresConnection {
    /// Runs a statement and returns its rows. Does not wait for earlier statements; answers come in the order of the
    /// calls.
    ///
    /// A statement is a transaction of its own, unless it runs inside ``transaction(within:_:)``.
    /// - Parameter limit: how long it may take, including waiting; nil: the limit of the transaction, else
    ///   ``patience``. If it takes longer, the connection is lost.
    /// - Throws: the server's error, or that the connection is lost, with whether the statement may have been carried
    ///   out.
    package func execute(
        _ statement: Statement, _ parameters: Parameters = [:], within limit: Duration? = nil
    ) async throws(PostgresError) -> Rows {
        let answer = await answer(to: statement, parameters, within: limit)
        if case .failure(.throttled) = answer, let terms, !isInTransaction {
            return try await waitingForCalls(atMost: terms.callPatience) { () async throws(PostgresError) in
                try await self.answer(to: statement, parameters, within: limit).get()
            }
        }
        return try answer.get()
    }

    private func answer(
        to statement: Statement, _ parameters: Parameters, within limit: Duration?
    ) async -> Result<Rows, PostgresError> {
        let values = statement.values(of: parameters)
        return await withCheckedContinuation { continuation in
            submit(Call(statement, values, limit: limit ?? statementLimit, continuation))
        }
    }

    private func submit(_ call: Call) {
        loop.checkIsolated()
        guard isOpen else {
            return call.finish(.failure(.connectionLost(call.statement.name, reason: "it was lost before", .notDone)))
        }
        call.timer = loop.schedule(after: call.limit) { self.expire(call) }
        waiting.append(call)
        planPump()
    }

    /// Plans to send at the end of this turn of the loop, so that all statements of the turn go out together.
    func planPump() {
        guard !isPumpPlanned, isOpen, !waiting.isEmpty || !takers.isEmpty else { return }
        isPumpPlanned = true
        loop.atEndOfTurn { self.pump() }
    }

    private func pump() {
        isPumpPlanned = false
        guard isOpen, !isInExclusiveUse else { return }
        // A task that wants the connection to itself does not wait for statements that came later.
        guard takers.isEmpty else { return handOver() }
        while isOpen, !waiting.isEmpty, inFlight.count < Self.maximumInFlight { send(waiting.removeFirst()) }
        flush()
    }

    // MARK: Sending

    private func send(_ call: Call) {
        guard let session = unsafe session else { return }
        inFlight.append(call)
        if let terms {
            guard unsafe sendTerms(terms, of: call, session) else { return lose(lastFailure) }
        }
        encoder.encode(call.parameters)
        let isSent = unsafe sendsByName(call) ? sendByName(call, session) : sendAsText(call, session)
        guard isSent, unsafe PQpipelineSync(session) == 1 else { return lose(lastFailure) }
    }

    private func sendsByName(_ call: Call) -> Bool {
        preparesStatements && !isInTransaction && !call.isUnprepared
            && preparations[call.statement.preparedName] != .outdated
    }

    /// Prepares the statement before its first execution, in the same round trip.
    private func sendByName(_ call: Call, _ session: OpaquePointer) -> Bool {
        let name = call.statement.preparedName
        if preparations[name] == nil {
            let types = encoder.types
            guard unsafe PQsendPrepare(session, name, call.statement.sql, CInt(types.count), types) == 1 else {
                return false
            }
            preparations[name] = .asked
            call.awaitsPreparation = true
            call.checksNames = true
        }
        return unsafe withEncodedValues { values in
            unsafe PQsendQueryPrepared(
                session, name, CInt(encoder.lengths.count), values, encoder.lengths, encoder.formats, 1) == 1
        }
    }

    private func sendTerms(_ terms: StatementTerms, of call: Call, _ session: OpaquePointer) -> Bool {
        if !isInTransaction {
            call.awaitedTerms += 1
            encoder.encode([])
            guard unsafe sendText(StatementTerms.isolation, session) else { return false }
        }
        call.awaitedTerms += 1
        let statement = StatementTerms.statement
        encoder.encode(statement.values(of: terms.parameters(within: call.limit, inTransaction: isInTransaction)))
        return unsafe sendText(statement, session)
    }

    private func sendAsText(_ call: Call, _ session: OpaquePointer) -> Bool {
        call.checksNames = true
        return unsafe sendText(call.statement, session)
    }

    /// Sends a statement with the parameters that were last encoded.
    private func sendText(_ statement: Statement, _ session: OpaquePointer) -> Bool {
        unsafe withEncodedValues { values in
            unsafe PQsendQueryParams(
                session, statement.sql, CInt(encoder.lengths.count), encoder.types, values, encoder.lengths,
                encoder.formats, 1) == 1
        }
    }

    /// Passes the encoded parameters to libpq in its format; libpq copies them.
    private func withEncodedValues(_ body: (UnsafePointer<UnsafePointer<CChar>?>) -> Bool) -> Bool {
        unsafe encoder.bytes.withUnsafeBytes { bytes in
            let start = unsafe bytes.baseAddress ?? UnsafeRawPointer(bitPattern: 1)!
            let values = unsafe encoder.starts.map { place in
                unsafe place < 0 ? nil : (start + place).assumingMemoryBound(to: CChar.self)
            }
            return unsafe values.withUnsafeBufferPointer { values in
                // libpq does not read the address if there are no values.
                unsafe body(values.baseAddress ?? UnsafePointer(bitPattern: 8)!)
            }
        }
    }

    // MARK: Receiving

    /// Takes the results that have arrived completely. For each statement, libpq returns its results, then a null, and
    /// then the mark of the sync, without a null (manual, "Pipeline Mode").
    func takeResults() {
        var nullsInRow = 0
        while let session = unsafe session, let call = inFlight.first, unsafe PQisBusy(session) == 0 {
            guard let result = unsafe PQgetResult(session) else {
                nullsInRow += 1
                if nullsInRow > 2 { return lose("libpq has no answer for what was asked") }
                continue
            }
            nullsInRow = 0
            guard !notices.haveUnreplicatedCommit else {
                unsafe PQclear(result)
                // The caller repeats the statement on another session, and waits for the standby again.
                return lose(lastFailure)
            }
            unsafe take(result, for: call)
        }
    }

    private func take(_ result: OpaquePointer, for call: Call) {
        switch unsafe PQresultStatus(result) {
        case PGRES_PIPELINE_SYNC:
            unsafe PQclear(result)
            complete(call)
        case PGRES_COMMAND_OK, PGRES_TUPLES_OK, PGRES_EMPTY_QUERY:
            guard call.awaitedTerms == 0 else {
                unsafe PQclear(result)
                call.awaitedTerms -= 1
                return
            }
            guard call.awaitsPreparation else {
                let rows = unsafe Rows(result, task: call.statement.name)
                if call.checksNames { rows.checkNames() }
                call.rows = rows
                return
            }
            unsafe PQclear(result)
            call.awaitsPreparation = false
            preparations[call.statement.preparedName] = .ready
        case PGRES_PIPELINE_ABORTED:
            // The preparation failed, and its result has reported why.
            unsafe PQclear(result)
        case PGRES_FATAL_ERROR:
            let error = unsafe ServerError(result, task: call.statement.name)
            unsafe PQclear(result)
            fail(call, error)
        default:
            unsafe PQclear(result)
            lose("the server answered \(call.statement.name) with something else than rows")
        }
    }

    private func fail(_ call: Call, _ error: ServerError) {
        if error.endsSession { return lose(error.message) }
        if let session = unsafe session, unsafe PQstatus(session) == CONNECTION_BAD { return lose(lastFailure) }
        call.awaitedTerms = 0
        if call.awaitsPreparation {
            call.awaitsPreparation = false
            preparations[call.statement.preparedName] = nil
        }
        call.failure = call.failure ?? error
    }

    /// Answers a call at its sync: only the sync makes a statement's effects last.
    private func complete(_ call: Call) {
        inFlight.removeFirst()
        if let failure = call.failure {
            if canGoAsText(call, failure.state) { return sendAgain(call) }
            call.finish(.failure(PostgresError(failure)))
            loseIfReadOnly(failure.state)
        } else if let rows = call.rows {
            call.finish(.success(rows))
        } else {
            lose("the server has not answered \(call.statement.name)")
        }
    }

    // MARK: Without preparing

    /// Whether the statement failed only because of its name: the server has not begun to run it.
    private func canGoAsText(_ call: Call, _ state: SQLState) -> Bool {
        let name = call.statement.preparedName
        switch state {
        case .duplicatePreparedStatement:
            preparesStatements = false
        case .invalidStatementName:
            // The statement was prepared, but this server connection does not know it: a pooler is in between. If it
            // was not ready, the preparation failed for the call before; sent as text, this call will report why.
            if preparations[name] == .ready { preparesStatements = false }
        case .featureNotSupported where preparations[name] == .ready:
            // "cached plan must not change result type"
            preparations[name] = .outdated
        default:
            return false
        }
        return !call.isUnprepared
    }

    private func sendAgain(_ call: Call) {
        call.isUnprepared = true
        call.failure = nil
        call.rows = nil
        // Several may have failed for their names: they go out again in their order, before all others.
        waiting.insert(call, at: waiting.prefix { $0.isUnprepared }.count)
        planPump()
    }

    // MARK: Deadlines

    private func expire(_ call: Call) {
        let error = PostgresError.timedOut(call.statement.name, after: call.limit, outcomeOfSent)
        if let index = waiting.firstIndex(where: { $0 === call }) {
            waiting.remove(at: index)
            return call.finish(.failure(.timedOut(call.statement.name, after: call.limit, .notDone)))
        }
        guard let index = inFlight.firstIndex(where: { $0 === call }) else { return }
        inFlight.remove(at: index)
        call.finish(.failure(error))
        loseSilent("\(call.statement.name) was not answered within \(call.limit)")
    }
}
