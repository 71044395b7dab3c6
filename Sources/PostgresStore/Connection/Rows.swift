import CPostgres

/// What a statement returned, in binary.
///
/// `@unchecked Sendable` is sound: libpq never changes a result once it is handed over ("PGresult objects are normally read-only
/// after creation, and so can be passed around freely between threads", manual, "Behavior in Threaded Programs"), the functions
/// called here only read it, and it is freed by the last owner.
@safe package final class Rows: @unchecked Sendable {
    private let result: OpaquePointer
    /// The statement, for the texts of failed preconditions.
    let task: String

    /// Takes the result over.
    init(_ result: OpaquePointer, task: String) {
        unsafe self.result = result
        self.task = task
    }

    deinit {
        unsafe PQclear(result)
    }

    /// How many rows were inserted, updated, deleted or returned.
    package var affectedRows: Int {
        unsafe Int(String(cString: PQcmdTuples(result))) ?? 0
    }

    /// What the server says it did: `COMMIT`, `ROLLBACK`, `INSERT 0 1`.
    var commandTag: String {
        unsafe String(cString: PQcmdStatus(result))
    }

    var status: ExecStatusType {
        unsafe PQresultStatus(result)
    }

    /// What the server said, if this is the result of a failure.
    var error: ServerError {
        unsafe ServerError(result, task: task)
    }

    package var columnCount: Int {
        unsafe Int(PQnfields(result))
    }

    /// The name of a column, as the statement gave it.
    package func columnName(_ column: Int) -> String {
        unsafe PQfname(result, CInt(column)).map { unsafe String(cString: $0) } ?? ""
    }

    func type(of column: Int) -> UInt32 {
        unsafe PQftype(result, CInt(column))
    }

    func isNull(_ row: Int, _ column: Int) -> Bool {
        unsafe PQgetisnull(result, CInt(row), CInt(column)) == 1
    }

    /// The bytes of a field, valid as long as the rows are.
    func bytes(_ row: Int, _ column: Int) -> UnsafeRawBufferPointer {
        unsafe UnsafeRawBufferPointer(
            start: PQgetvalue(result, CInt(row), CInt(column)),
            count: Int(PQgetlength(result, CInt(row), CInt(column))))
    }
}

extension Rows: RandomAccessCollection {
    package var startIndex: Int { 0 }
    package var endIndex: Int { unsafe Int(PQntuples(result)) }

    package subscript(position: Int) -> Row {
        precondition(indices.contains(position), "\(task) returned \(count) rows, there is no row \(position)")
        return Row(rows: self, index: position)
    }
}
