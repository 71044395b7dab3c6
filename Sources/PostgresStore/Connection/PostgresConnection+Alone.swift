import CPostgres
import Transport

// Stretches in which one task has the connection to itself, outside the pipeline: scripts and COPY.
extension PostgresConnection {
    /// What such a task does, and its deadline.
    struct Solo {
        let task: String
        let limit: Duration
        let deadline: ContinuousClock.Instant
    }

    /// Waits until no call is in flight, and leaves the pipeline. The caller must call ``giveBack()`` afterwards, even
    /// after an error.
    func takeAlone(_ task: String, within limit: Duration) async throws(PostgresError) -> Solo {
        loop.checkIsolated()
        let solo = Solo(task: task, limit: limit, deadline: loop.now + limit)
        try await take(solo)
        return solo
    }

    // MARK: Results

    /// Runs a text of one or several statements and drains its results. Returns the command tag of the last one.
    @discardableResult
    func run(_ sql: String, _ solo: Solo) async throws(PostgresError) -> String {
        guard let session = unsafe session, unsafe PQsendQuery(session, sql) == 1 else { throw brokenOff(solo) }
        var tag = ""
        var failure: ServerError?
        while let result = try await unsafe nextResult(solo) {
            let rows = unsafe Rows(result, task: solo.task)
            switch rows.status {
            case PGRES_FATAL_ERROR: failure = failure ?? rows.error
            case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH: throw brokenOff(solo, "a script cannot COPY")
            default: tag = rows.commandTag
            }
        }
        if let failure {
            loseIfReadOnly(failure.state)
            throw PostgresError(failure)
        }
        return tag
    }

    /// Waits for the next result, which the caller owns; nil if there are no more. If the server ends the session, the
    /// connection is lost.
    func nextResult(_ solo: Solo) async throws(PostgresError) -> OpaquePointer? {
        try await drain(solo)
        while true {
            guard let session = unsafe session else { throw brokenOff(solo) }
            if unsafe PQisBusy(session) == 0 { break }
            try await wait(for: .readable, solo)
            try consumeInput(solo)
        }
        guard let session = unsafe session else { throw brokenOff(solo) }
        guard let result = unsafe PQgetResult(session) else { return nil }
        guard !notices.haveUnreplicatedCommit else {
            unsafe PQclear(result)
            throw brokenOff(solo)
        }
        if unsafe PQresultStatus(result) == PGRES_FATAL_ERROR {
            let error = unsafe ServerError(result, task: solo.task)
            if unsafe error.endsSession || PQstatus(session) == CONNECTION_BAD {
                unsafe PQclear(result)
                throw brokenOff(solo, error.message)
            }
        }
        return unsafe result
    }

    /// Waits until the kernel has taken all that libpq holds. This makes a fast reader wait for a slow server.
    func drain(_ solo: Solo) async throws(PostgresError) {
        while true {
            guard let session = unsafe session else { throw brokenOff(solo) }
            switch unsafe PQflush(session) {
            case 0: return
            case 1:
                try await wait(for: [.readable, .writable], solo)
                // The server may have to send something before it reads on (manual, PQflush).
                try consumeInput(solo)
            default: throw brokenOff(solo)
            }
        }
    }

    /// Loses the connection and returns the error that says so.
    func brokenOff(_ solo: Solo, _ reason: String? = nil) -> PostgresError {
        let reason = reason ?? lastFailure
        lose(reason)
        return .connectionLost(solo.task, reason: reason, outcomeOfSent)
    }

    /// Waits for more data from the server.
    func receiveMore(_ solo: Solo) async throws(PostgresError) {
        try await wait(for: .readable, solo)
        try consumeInput(solo)
    }

    private func consumeInput(_ solo: Solo) throws(PostgresError) {
        guard let session = unsafe session, unsafe PQconsumeInput(session) == 1 else { throw brokenOff(solo) }
    }

    /// Throws, and loses the connection, if the time of the task is over.
    func checkTime(of solo: Solo) throws(PostgresError) {
        guard loop.now < solo.deadline else { throw tookTooLong(solo) }
    }

    private func tookTooLong(_ solo: Solo) -> PostgresError {
        loseSilent("\(solo.task) was not done within \(solo.limit)")
        return .timedOut(solo.task, after: solo.limit, outcomeOfSent)
    }

    private func wait(for interest: Interest, _ solo: Solo) async throws(PostgresError) {
        let wait = ReadinessWait(descriptor, on: loop)
        takersWait = wait
        let isReady = await wait.wait(for: interest, until: solo.deadline)
        takersWait = nil
        guard isOpen else { throw brokenOff(solo) }
        guard isReady else { throw tookTooLong(solo) }
    }

    // MARK: Taking turns

    private func take(_ solo: Solo) async throws(PostgresError) {
        let answer = await withCheckedContinuation { continuation in
            let taker = Taker(solo.task, continuation)
            guard isOpen else {
                return taker.finish(.failure(.connectionLost(solo.task, reason: "it was lost before", .notDone)))
            }
            taker.timer = loop.schedule(after: solo.limit) { self.expire(taker, after: solo.limit) }
            takers.append(taker)
            planPump()
        }
        try answer.get()
    }

    /// Gives the connection to the task that has waited longest, if no call is in flight.
    func handOver() {
        guard let session = unsafe session, !isInExclusiveUse, inFlight.isEmpty, !takers.isEmpty else { return }
        let taker = takers.removeFirst()
        isInExclusiveUse = true
        loop.unwatch(descriptor)
        let code = unsafe PQexitPipelineMode(session)
        precondition(code == 1, "libpq is still at something although every call was answered")
        taker.finish(.success(()))
    }

    /// Returns to the pipeline, so that the next task gets its turn.
    func giveBack() {
        isInExclusiveUse = false
        guard let session = unsafe session else { return }
        guard unsafe PQenterPipelineMode(session) == 1 else {
            // The session is in the middle of something: the next calls would get its answers.
            loop.watch(descriptor, for: .readable, handler: self)
            return lose(lastFailure)
        }
        loop.watch(descriptor, for: .readable, handler: self)
        takeNotifications()
        planPump()
    }

    private func expire(_ taker: Taker, after limit: Duration) {
        guard let index = takers.firstIndex(where: { $0 === taker }) else { return }
        takers.remove(at: index)
        taker.finish(.failure(.timedOut(taker.task, after: limit, .notDone)))
        planPump()
    }
}
