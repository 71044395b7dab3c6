package import FoundationEssentials

/// How soon a certificate expires. Apple's are valid for 13 months, which is easily forgotten.
package struct CredentialExpiry: Equatable, Sendable {
    /// Days before the end at which a warning is due; 0 is the end itself.
    package static let thresholds = [30, 14, 7, 1, 0]

    /// The time until the certificate expires; negative after that.
    package let timeLeft: TimeInterval

    /// - Parameter now: the database's time, on which all workers agree.
    package init(notAfter: Date, now: Date) {
        timeLeft = notAfter.timeIntervalSince(now)
    }

    /// Whole days until the end.
    package var daysLeft: Int { Int((timeLeft / 86_400).rounded(.down)) }

    /// The last threshold that was crossed; nil if none was crossed yet.
    package var threshold: Int? {
        Self.thresholds.last { timeLeft <= Double($0) * 86_400 }
    }

    /// The message to an operator, such as `expires in 12 days`; nil while no threshold has been crossed. It never
    /// states more time than there is.
    package var warning: String? {
        switch threshold {
        case nil: nil
        case 0: "expired"
        case 1 where timeLeft < 60: "expires in less than a minute"
        case 1 where timeLeft < 3600: "expires in \(Int(timeLeft / 60).counted("minute"))"
        case 1: "expires in \(Int(timeLeft / 3600).counted("hour"))"
        default: "expires in \(daysLeft.counted("day"))"
        }
    }
}
