import CPostgres

extension ServerError {
    /// Reads the fields of a failed result, which the caller still owns.
    init(_ result: OpaquePointer, task: String) {
        func field(_ code: Character) -> String? {
            unsafe PQresultErrorField(result, CInt(code.asciiValue!)).map { unsafe String(cString: $0) }
        }
        // The codes of the fields: libpq's PG_DIAG_… are macros of character constants.
        // PgBouncer's own errors have only the severity in the server's language, in English.
        let severity = field("V") ?? field("S")
        let wholeMessage = unsafe String(cString: PQresultErrorMessage(result))
        let state = SQLState(field("C") ?? "XX000")
        // Only the detail names the objects, on a line each. Other details may contain values of rows.
        let dependents = state == .dependentObjects ? field("D") ?? "" : ""
        self.init(
            task: task, state: state,
            message: ([field("M") ?? wholeMessage.onOneLine] + dependents.split(separator: "\n").map(String.init))
                .joined(separator: "; "),
            hint: field("H"), constraint: field("n"), position: field("P").flatMap { Int($0) },
            endsSession: severity == "FATAL" || severity == "PANIC",
            isWarning: severity == "WARNING",
            // The server function that raises the warning has the same name in every language.
            isOfUnreplicatedCommit: field("R") == "SyncRepWaitForLSN")
    }
}
