/// The five characters with which PostgreSQL classifies an error (manual, appendix A).
package struct SQLState: Hashable, Sendable, ExpressibleByStringLiteral {
    package let code: String

    package init(stringLiteral code: String) {
        self.code = code
    }

    init(_ code: String) {
        self.code = code
    }

    /// The first two characters: the class of the error.
    var errorClass: Substring { code.prefix(2) }

    /// Whether a function raised the error on purpose: P0001, or class PQ of pushq's own functions (PQ400 bad request,
    /// PQ404 not found, PQ409 conflict; docs/sql-api.md).
    var isRaisedByFunction: Bool { code == "P0001" || errorClass == "PQ" }

    /// Whether the cause may disappear by itself: the server lacks disk, memory or connections (class 53), it or the
    /// statement was told to stop (57), its disk failed (58), or it takes no writes at this moment (25006).
    var isTransient: Bool { ["53", "57", "58"].contains(errorClass) || self == .readOnlyTransaction }

    /// Whether a row found no partition. PostgreSQL reports this as the violation of a check without a name. Workers
    /// create days ahead; days are missing if no worker has run for days.
    func isMissingDay(constraint: String?) -> Bool { self == .checkViolation && constraint == nil }

    static let featureNotSupported: SQLState = "0A000"
    static let invalidParameterValue: SQLState = "22023"
    static let notNullViolation: SQLState = "23502"
    static let foreignKeyViolation: SQLState = "23503"
    static let uniqueViolation: SQLState = "23505"
    static let checkViolation: SQLState = "23514"
    static let exclusionViolation: SQLState = "23P01"
    static let readOnlyTransaction: SQLState = "25006"
    static let invalidStatementName: SQLState = "26000"
    static let dependentObjects: SQLState = "2BP01"
    static let invalidDatabase: SQLState = "3D000"
    static let invalidSchema: SQLState = "3F000"
    static let serializationFailure: SQLState = "40001"
    static let deadlock: SQLState = "40P01"
    static let insufficientPrivilege: SQLState = "42501"
    static let undefinedColumn: SQLState = "42703"
    static let undefinedFunction: SQLState = "42883"
    static let undefinedTable: SQLState = "42P01"
    static let duplicatePreparedStatement: SQLState = "42P05"
    static let lockNotAvailable: SQLState = "55P03"
    static let queryCanceled: SQLState = "57014"
    /// Raised by `pushq.count_call` (migrations/functions/quotas.sql), and by nothing else.
    static let tooManyCalls: SQLState = "PQ429"
}
