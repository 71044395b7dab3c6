import CPostgres
import Transport

extension PostgresConnection {
    /// Runs `COPY … TO STDOUT`, and returns all of its output, which the statement must bound.
    package func copyOut(_ statement: Statement, within limit: Duration) async throws(PostgresError) -> [UInt8] {
        let solo = try await takeAlone(statement.name, within: limit)
        defer { giveBack() }
        guard let session = unsafe session, unsafe PQsendQuery(session, statement.sql) == 1 else {
            throw brokenOff(solo)
        }
        guard let result = try await unsafe nextResult(solo) else { throw brokenOff(solo, "COPY was not answered") }
        let rows = unsafe Rows(result, task: solo.task)
        guard rows.status == PGRES_COPY_OUT else {
            while let rest = try await unsafe nextResult(solo) { unsafe PQclear(rest) }
            throw PostgresError(rows.error)
        }
        let bytes = try await readCopy(solo)
        var failure: ServerError?
        while let rest = try await unsafe nextResult(solo) {
            let end = unsafe Rows(rest, task: solo.task)
            if end.status == PGRES_FATAL_ERROR { failure = end.error }
        }
        if let failure { throw PostgresError(failure) }
        return bytes
    }

    private func readCopy(_ solo: Solo) async throws(PostgresError) -> [UInt8] {
        var bytes: [UInt8] = []
        while true {
            guard let session = unsafe session else { throw brokenOff(solo) }
            var piece: UnsafeMutablePointer<CChar>?
            let count = unsafe PQgetCopyData(session, &piece, 1)
            switch count {
            case 1...:
                unsafe bytes.append(contentsOf: UnsafeRawBufferPointer(start: piece, count: Int(count)))
                unsafe PQfreemem(piece)
            case 0: try await receiveMore(solo)
            // The end of the data; the next result says whether all rows were sent.
            case -1: return bytes
            default: throw brokenOff(solo)
            }
        }
    }
}
