import CPostgres
import Transport

/// Writes the rows of a COPY, in the format that its statement names.
package struct CopyWriter {
    fileprivate let connection: PostgresConnection
    fileprivate let solo: PostgresConnection.Solo

    /// Sends bytes; a row may be cut anywhere. Returns when the kernel has taken them, so that a source that is faster
    /// than the server waits and nothing accumulates. Pieces of about ``CopyRows/chunkBytes`` are best.
    package func write(_ bytes: [UInt8]) async throws(PostgresError) {
        guard !bytes.isEmpty else { return }
        try connection.checkTime(of: solo)
        while true {
            guard let session = unsafe connection.session else { throw connection.brokenOff(solo) }
            let code = unsafe bytes.withUnsafeBytes { piece in
                unsafe PQputCopyData(
                    session, piece.baseAddress!.assumingMemoryBound(to: CChar.self), CInt(piece.count))
            }
            guard code >= 0 else { throw connection.brokenOff(solo) }
            try await connection.drain(solo)
            // Zero: libpq had no room, but has room now.
            if code == 1 { return }
        }
    }

    /// The same for bytes of any number.
    func write(inPieces bytes: [UInt8]) async throws(PostgresError) {
        for start in stride(from: 0, to: bytes.count, by: CopyRows.chunkBytes) {
            try await write(Array(bytes[start..<min(start + CopyRows.chunkBytes, bytes.count)]))
        }
    }
}

extension PostgresConnection {
    /// Runs `COPY … FROM STDIN`; `body` writes the rows. All of it is one statement: if `body` throws, nothing was
    /// copied.
    /// - Parameter limit: how long all of it may take, including the time between two pieces of the source; nil: as
    ///   long as any statement here.
    /// - Returns: the number of rows that the server took.
    package func copyIn(
        _ statement: Statement, within limit: Duration? = nil, _ body: (CopyWriter) async throws -> Void
    ) async throws -> Int {
        let solo = try await takeAlone(statement.name, within: limit ?? statementLimit)
        defer { giveBack() }
        try await beginCopy(statement.sql, solo)
        do {
            try await body(CopyWriter(connection: self, solo: solo))
        } catch {
            // The server answers with the error that this requests; the caller gets the error of the source instead.
            if isOpen { _ = try? await endCopy(solo, because: "the source of the rows failed") }
            throw error
        }
        return try await endCopy(solo, because: nil)
    }

    private func beginCopy(_ sql: String, _ solo: Solo) async throws(PostgresError) {
        guard let session = unsafe session, unsafe PQsendQuery(session, sql) == 1 else { throw brokenOff(solo) }
        guard let result = try await unsafe nextResult(solo) else { throw brokenOff(solo, "COPY was not answered") }
        let rows = unsafe Rows(result, task: solo.task)
        if rows.status == PGRES_COPY_IN { return }
        while let rest = try await unsafe nextResult(solo) { unsafe PQclear(rest) }
        throw PostgresError(rows.error)
    }

    private func endCopy(_ solo: Solo, because reason: String?) async throws(PostgresError) -> Int {
        guard let session = unsafe session, unsafe PQputCopyEnd(session, reason) == 1 else { throw brokenOff(solo) }
        var count = 0
        var failure: ServerError?
        while let result = try await unsafe nextResult(solo) {
            let rows = unsafe Rows(result, task: solo.task)
            if rows.status == PGRES_FATAL_ERROR { failure = rows.error } else { count = rows.affectedRows }
        }
        if let failure { throw PostgresError(failure) }
        return count
    }
}
