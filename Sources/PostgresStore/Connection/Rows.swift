import CPostgres
import Glibc
import Synchronization

/// The rows that a statement returned, in binary format.
///
/// `@unchecked Sendable` is sound: libpq never changes a result once it is handed over ("PGresult objects are normally
/// read-only after creation, and so can be passed around freely between threads", manual, "Behavior in Threaded
/// Programs"), the functions called here only read it, and it is freed by the last owner.
@safe package final class Rows: @unchecked Sendable {
    private let result: OpaquePointer
    /// The statement, for the texts of failed preconditions.
    let task: String
    /// For each column the address of the literal by which it was last read. `lastRead` is the column that was read
    /// last. The same literals read thousands of rows, so only addresses are compared; names are compared at the first
    /// row. Both are atomic because rows may be read on any thread. What they contain is a hint that is checked.
    private let askedBy: UnsafeMutableBufferPointer<Atomic<UInt>>
    private let lastRead = Atomic<Int>(0)

    /// Takes ownership of the result.
    init(_ result: OpaquePointer, task: String) {
        unsafe self.result = result
        self.task = task
        unsafe askedBy = .allocate(capacity: Int(PQnfields(result)))
        for column in unsafe askedBy.indices { unsafe (askedBy.baseAddress! + column).initialize(to: Atomic(0)) }
    }

    deinit {
        unsafe askedBy.baseAddress?.deinitialize(count: askedBy.count)
        unsafe askedBy.deallocate()
        unsafe PQclear(result)
    }

    /// The number of rows inserted, updated, deleted or returned.
    package var affectedRows: Int {
        unsafe Int(String(cString: PQcmdTuples(result))) ?? 0
    }

    /// What the server did: `COMMIT`, `ROLLBACK`, `INSERT 0 1`.
    var commandTag: String {
        unsafe String(cString: PQcmdStatus(result))
    }

    var status: ExecStatusType {
        unsafe PQresultStatus(result)
    }

    /// The server's error, if this is the result of a failure.
    var error: ServerError {
        unsafe ServerError(result, task: task)
    }

    var rowCount: Int {
        unsafe Int(PQntuples(result))
    }

    var columnCount: Int {
        unsafe Int(PQnfields(result))
    }

    /// The position of the column with this name.
    func column(_ name: StaticString) -> Int {
        let address = unsafe UInt(bitPattern: name.utf8Start)
        let count = unsafe askedBy.count
        var column = lastRead.load(ordering: .relaxed)
        for _ in 0..<count {
            if unsafe askedBy[column].load(ordering: .relaxed) == address {
                lastRead.store(column, ordering: .relaxed)
                return column
            }
            column = column + 1 == count ? 0 : column + 1
        }
        guard let column = (0..<count).first(where: { isName(name, of: $0) }) else {
            fatalError("\(task) returns no column \(name), but \((0..<count).map(self.name))")
        }
        unsafe askedBy[column].store(address, ordering: .relaxed)
        return column
    }

    /// Ends the program if two columns have the same name, because a reader could confuse them. PostgreSQL names every
    /// column without a name `?column?`; no reader asks for these.
    func checkNames() {
        let names = (0..<columnCount).map(name).filter { $0 != "?column?" }
        guard Set(names).count == names.count else { fatalError("\(task) returns two columns of one name: \(names)") }
    }

    private func isName(_ name: StaticString, of column: Int) -> Bool {
        let start = unsafe UnsafeRawPointer(name.utf8Start).assumingMemoryBound(to: CChar.self)
        return unsafe strcmp(PQfname(result, CInt(column)), start) == 0
    }

    func name(of column: Int) -> String {
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
