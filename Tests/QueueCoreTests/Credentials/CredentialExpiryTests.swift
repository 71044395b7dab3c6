import Foundation
import QueueCore
import Testing

@Suite struct `The end of a certificate` {
    private func expiry(_ timeLeft: TimeInterval) -> CredentialExpiry {
        let now = Date(timeIntervalSince1970: 1_800_000_000)
        return CredentialExpiry(notAfter: now + timeLeft, now: now)
    }

    @Test(
        arguments: [
            (31, nil), (30.5, nil), (30, 30), (15, 30), (14, 14), (8, 14), (7, 7), (2, 7), (1, 1), (0.1, 1), (0, 0),
            (-3, 0),
        ] as [(Double, Int?)])
    func `is announced 30, 14 and 7 days and one day before`(days: Double, threshold: Int?) {
        #expect(expiry(days * 86_400).threshold == threshold)
    }

    @Test(
        arguments: [
            (40 * 86_400, nil), (10.5 * 86_400, "expires in 10 days"), (1.2 * 86_400, "expires in 1 day"),
            (86_400, "expires in 24 hours"), (12 * 3600, "expires in 12 hours"), (7199, "expires in 1 hour"),
            (3600, "expires in 1 hour"), (3599, "expires in 59 minutes"), (120, "expires in 2 minutes"),
            (96, "expires in 1 minute"), (60, "expires in 1 minute"), (59, "expires in less than a minute"),
            (0.1, "expires in less than a minute"), (0, "expired"), (-9 * 86_400, "expired"),
        ] as [(TimeInterval, String?)])
    func `is told in words, down to the minute`(timeLeft: TimeInterval, words: String?) {
        #expect(expiry(timeLeft).warning == words)
    }
}
