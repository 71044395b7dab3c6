/// How long APNs puts up with a connection whose pushes it has to refuse. Too many refusals end it, those of bad tokens
/// sooner, while dead ones (410) are nobody's fault; a run of them slows it down until a push is accepted (Apple:
/// "Troubleshooting push notifications"). Apple's numbers are not known, so they are a rule's to give.
struct ErrorPatience {
    enum Consequence {
        case none
        /// One stream at a time from now on.
        case slowDown
        /// As many streams as before.
        case speedUp
        /// GOAWAY.
        case end
    }

    /// How much more than another refusal a bad token counts.
    static let weightOfBadToken = 3

    private var weight = 0
    private var run = 0
    private var isSlow = false

    /// Notes an answer that goes out.
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
