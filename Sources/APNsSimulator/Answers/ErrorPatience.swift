/// Counts the refusals on a connection, of which APNs tolerates only so many. Too many refusals end the connection; bad
/// tokens count more, and dead tokens (410) do not count. A run of refusals slows the connection down until a push is
/// accepted (Apple: "Troubleshooting push notifications"). Apple's numbers are not known, so the rules give them.
struct ErrorPatience {
    enum Consequence {
        case none
        /// Allow one stream at a time from now on.
        case slowDown
        /// Allow as many streams as before.
        case speedUp
        /// Send GOAWAY.
        case end
    }

    /// A bad token counts as this many other refusals.
    static let weightOfBadToken = 3

    private var weight = 0
    private var run = 0
    private var isSlow = false

    /// Notes an answer that is sent.
    mutating func note(status: Int, reason: String, _ rules: ConnectionRules) -> Consequence {
        if status == 200 {
            run = 0
            defer { isSlow = false }
            return isSlow ? .speedUp : .none
        }
        guard (400..<500).contains(status), status != 410 else { return .none }
        run += 1
        weight += reason == DocumentedReason.badDeviceToken.rawValue ? Self.weightOfBadToken : 1
        if let limit = rules.endAfterErrors, weight >= limit { return .end }
        guard !isSlow, let limit = rules.slowAfterErrors, run >= limit else { return .none }
        isSlow = true
        return .slowDown
    }
}
