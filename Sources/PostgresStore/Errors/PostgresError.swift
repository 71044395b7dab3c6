/// What can go wrong between this program and PostgreSQL, sorted by what a caller can do about it.
///
/// No text here holds a password or a value that was bound to a statement: errors end up in logs.
package enum PostgresError: Error, Equatable {
    /// Whether what failed may have happened all the same.
    package enum Outcome: Equatable, Sendable {
        /// The server has not done it, and never will.
        case notDone
        /// It was under way when the connection went.
        case unknown
    }

    /// The address of the database cannot be read.
    case badAddress(String)
    /// Nobody answers, or not yet; trying again later may help.
    case cannotConnect(address: String, reason: String)
    /// The server does not let us in: wrong password, user or database. Trying again does not help.
    case refused(address: String, reason: String)
    /// The time for it was over. The connection it was running on is gone.
    case timedOut(String, after: Duration, Outcome)
    /// The connection broke, or was closed by the server.
    case connectionLost(String, reason: String, Outcome)
    /// Two transactions were in each other's way (deadlock, serialization, a lock not had in time): the same again may
    /// go well.
    case contended(ServerError)
    /// A row with this key is there already.
    case duplicate(constraint: String, ServerError)
    /// A value that the named constraint does not allow.
    case violated(constraint: String, ServerError)
    /// A table, column or function is missing: the schema is older than the program.
    case notMigrated(ServerError)
    /// The role may not do this.
    case notAllowed(ServerError)
    /// One of pushq's own functions refused, and says why.
    case raised(message: String, hint: String?)
    /// A statement that always returns a row returned none: the schema is not the program's.
    case noRow(String)
    /// Anything else that the server answered.
    case server(ServerError)

    /// What the server said, if it said something.
    var serverError: ServerError? {
        switch self {
        case .contended(let error), .duplicate(_, let error), .violated(_, let error), .notMigrated(let error),
            .notAllowed(let error), .server(let error):
            error
        default: nil
        }
    }

    /// Whether a value was not allowed by the constraint of this name. Of a foreign key: what the row refers to was
    /// removed by another transaction at the same time, or what is to be removed is referred to.
    func violates(_ name: String) -> Bool {
        if case .violated(name, _) = self { true } else { false }
    }

    /// Whether the server does not let this program in.
    package var isLockedOut: Bool {
        if case .refused = self { true } else { false }
    }

    /// Whether another transaction was in the way.
    package var isContended: Bool {
        if case .contended = self { true } else { false }
    }

    /// Whether a statement that was sent had no answer in time.
    package var isUnanswered: Bool {
        if case .timedOut(_, _, .unknown) = self { true } else { false }
    }

    /// Whether what failed may have been carried out all the same.
    var mayBeDone: Bool {
        switch self {
        case .timedOut(_, _, .unknown), .connectionLost(_, _, .unknown): true
        default: false
        }
    }

    /// Whether the login lacks a right.
    package var isNotAllowed: Bool {
        if case .notAllowed = self { true } else { false }
    }

    /// Whether a statement may be refused because of the rows that it is about, and not because of the schema, a
    /// missing right, or a damaged database (class XX), which concern all of them.
    package var mayBlameRows: Bool {
        switch self {
        case .duplicate, .violated, .raised: true
        case .server(let error): !isPassing && error.state.errorClass != "XX"
        default: false
        }
    }

    /// Whether it is worth waiting and trying again: nothing has to be changed by anybody first.
    package var isPassing: Bool {
        switch self {
        case .cannotConnect, .timedOut, .connectionLost, .contended: true
        case .server(let error): error.state.isPassing || error.state.isMissingDay(constraint: error.constraint)
        default: false
        }
    }
}

extension PostgresError {
    /// The case that tells a caller what to do about an error of the server.
    init(_ error: ServerError) {
        self =
            switch error.state {
            case .serializationFailure, .deadlock, .lockNotAvailable: .contended(error)
            case .uniqueViolation, .exclusionViolation: .duplicate(constraint: error.constraint ?? "", error)
            case let state where state.isMissingDay(constraint: error.constraint): .server(error)
            case .checkViolation, .foreignKeyViolation, .notNullViolation:
                .violated(constraint: error.constraint ?? "", error)
            case .undefinedTable, .undefinedColumn, .undefinedFunction, .invalidSchema: .notMigrated(error)
            case .insufficientPrivilege: .notAllowed(error)
            case let state where state.isRaisedByFunction: .raised(message: error.message, hint: error.hint)
            default: .server(error)
            }
    }
}

extension PostgresError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .badAddress(let reason):
            "the database's address is not valid: \(reason); "
                + "write postgresql://user@host:5432/database or host=… dbname=… user=…"
        case .cannotConnect(let address, let reason):
            "cannot connect to \(address): \(reason)"
        case .refused(let address, let reason):
            "\(address) refuses the connection: \(reason)"
        case .timedOut(let task, let limit, let outcome):
            "\(task) took longer than \(limit) and was given up" + outcome.remark
        case .connectionLost(let task, let reason, let outcome):
            "the connection to the database was lost during \(task): \(reason)" + outcome.remark
        case .contended(let error), .duplicate(_, let error), .violated(_, let error), .server(let error):
            error.description
        case .notMigrated(let error):
            "\(error); bring the schema up to date with: pushq-admin migrate"
        case .notAllowed(let error):
            "\(error); connect as a role that has this right, or have it granted"
        case .noRow(let task):
            "\(task) returned no row, although it always must; compare the schema with the program: "
                + "pushq-admin migrate --dry-run"
        case .raised(let message, let hint):
            message + (hint.map { "; \($0)" } ?? "")
        }
    }
}

extension PostgresError.Outcome {
    fileprivate var remark: String {
        self == .unknown ? " (it may have been carried out)" : ""
    }
}
