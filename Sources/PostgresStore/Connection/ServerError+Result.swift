import CPostgres

extension ServerError {
    /// Reads the fields of a failed result, which the caller still owns.
    init(_ result: OpaquePointer, task: String) {
        func field(_ code: Character) -> String? {
            unsafe PQresultErrorField(result, CInt(code.asciiValue!)).map { unsafe String(cString: $0) }
        }
        // The codes of the fields: libpq's PG_DIAG_… are macros of character constants.
        let severity = field("V")
        let wholeMessage = unsafe String(cString: PQresultErrorMessage(result))
        self.init(
            task: task, state: SQLState(field("C") ?? "XX000"),
            message: field("M") ?? wholeMessage.onOneLine,
            hint: field("H"), constraint: field("n"), position: field("P").flatMap { Int($0) },
            endsSession: severity == "FATAL" || severity == "PANIC",
            isWarning: severity == "WARNING",
            // The server function that raises the warning has the same name in every language.
            isOfUnreplicatedCommit: field("R") == "SyncRepWaitForLSN")
    }
}
