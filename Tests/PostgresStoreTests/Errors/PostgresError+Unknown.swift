import PostgresStore

extension PostgresError {
    /// Whether the statement may have been carried out although it failed.
    var isOutcomeUnknown: Bool {
        switch self {
        case .timedOut(_, _, .unknown), .connectionLost(_, _, .unknown): true
        default: false
        }
    }
}
