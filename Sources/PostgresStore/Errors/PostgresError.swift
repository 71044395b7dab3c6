/// The errors between this program and PostgreSQL, sorted by what a caller can do about them.
///
/// No text here contains a password or a value that was bound to a statement, because errors appear in logs.
package enum PostgresError: Error, Equatable {
    /// Whether what failed may have been carried out nevertheless.
    package enum Outcome: Equatable, Sendable {
        /// The server has not carried it out, and never will.
        case notDone
        /// It was in flight when the connection was lost.
        case unknown
    }

    /// The address of the database cannot be read.
    case badAddress(String)
    /// No server answers, or not yet. Trying again later may help.
    case cannotConnect(address: String, reason: String)
    /// The server refuses the login: wrong password, user or database. Trying again does not help.
    case refused(address: String, reason: String)
    /// It took too long. The connection on which it ran is lost.
    case timedOut(String, after: Duration, Outcome)
    /// The connection broke, or was closed by the server.
    case connectionLost(String, reason: String, Outcome)
    /// Two transactions conflicted (deadlock, serialization failure, lock timeout). Trying again may succeed.
    case contended(ServerError)
    /// A row with this key already exists.
    case duplicate(constraint: String, ServerError)
    /// The named constraint does not allow a value.
    case violated(constraint: String, ServerError)
    /// A table, column or function is missing: the schema is older than the program.
    case notMigrated(ServerError)
    /// The role may not do this.
    case notAllowed(ServerError)
    /// One of pushq's own functions refused the call, and says why.
    case raised(message: String, hint: String?)
    /// The tenant has reached its limit of calls a second. Nothing of this call was done.
    case throttled(message: String, hint: String?)
    /// A statement that always returns a row returned none: the schema does not match the program.
    case noRow(String)
    /// Any other error of the server.
    case server(ServerError)

    /// The server's error, if there is one.
    var serverError: ServerError? {
        switch self {
        case .contended(let error), .duplicate(_, let error), .violated(_, let error), .notMigrated(let error),
            .notAllowed(let error), .server(let error):
            error
        default: nil
        }
    }

    /// Whether the server has answered, with a refusal.
    package var isOfServer: Bool { serverError != nil }

    /// Whether the constraint of this name did not allow a value. For a foreign key: another transaction has removed
    /// the referenced row at the same time, or other rows refer to the row that was to be removed.
    func violates(_ name: String) -> Bool {
        if case .violated(name, _) = self { true } else { false }
    }

    /// Whether the server refuses this program's login.
    package var isLockedOut: Bool {
        if case .refused = self { true } else { false }
    }

    /// Whether another transaction was in conflict.
    package var isContended: Bool {
        if case .contended = self { true } else { false }
    }

    /// Whether the tenant has reached its limit of calls a second.
    package var isThrottled: Bool {
        if case .throttled = self { true } else { false }
    }

    /// Whether the server cannot do this because it is a standby, or still replays its archive.
    var isOfRecovery: Bool {
        if case .raised(let message, _) = self { return message == Self.isInRecovery }
        return serverError?.isOfRecovery ?? false
    }

    /// What `pushq.current_timeline` says of a standby.
    private static let isInRecovery = "this server is a standby, or still replays its archive"

    /// Whether a sent statement got no answer in time.
    package var isUnanswered: Bool {
        if case .timedOut(_, _, .unknown) = self { true } else { false }
    }

    /// Whether what failed may have been carried out nevertheless.
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

    /// Whether the cause may be the rows that a statement writes. Other causes concern all rows: the schema, a missing
    /// right, or a damaged database (class XX).
    package var mayBlameRows: Bool {
        switch self {
        case .duplicate, .violated: true
        case .raised: !isTransient
        case .server(let error): !isTransient && error.state.errorClass != "XX"
        default: false
        }
    }

    /// The name of the statement that the server refuses, whatever rows it is about; nil for any other error.
    package var refusedStatement: String? { mayBlameRows ? nil : serverError?.task }

    /// Whether waiting and trying again may help without any change by an operator.
    package var isTransient: Bool {
        switch self {
        // Another server takes writes, or will. A pooler may lead to a standby that this program cannot recognise.
        case _ where isOfRecovery: true
        case .cannotConnect, .timedOut, .connectionLost, .contended, .throttled: true
        case .server(let error): error.state.isTransient || error.state.isMissingDay(constraint: error.constraint)
        default: false
        }
    }
}

extension PostgresError {
    /// Sorts an error of the server by what a caller can do about it.
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
            case .tooManyCalls: .throttled(message: error.message, hint: error.hint)
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
            "\(error); unless a restore is running, bring the schema up to date with pushq-admin migrate of the newest "
                + "version in use"
        case .notAllowed(let error):
            "\(error); connect as a role that has this right, or have it granted"
        case .noRow(let task):
            "\(task) returned no row, although it always must; compare the schema with the program: "
                + "pushq-admin migrate --dry-run"
        case .raised(let message, let hint), .throttled(let message, let hint):
            message + (hint.map { "; \($0)" } ?? "")
        }
    }
}

extension PostgresError.Outcome {
    fileprivate var remark: String {
        self == .unknown ? " (it may have been carried out)" : ""
    }
}
