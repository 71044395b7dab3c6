import PostgresStore
import QueueCore

/// What a worker asks about a job before it sends: who has quiet hours, whom a frequency cap holds back, and which
/// numbers go to the badges of the others.
enum Restraint {
    /// The number of recipients from which the jobs of a statement are enough: for caps, it locks their devices' rows
    /// while it runs, for some 50 ms.
    static let enoughRecipients = 5000

    /// Notes what is to be asked about a job. Returns whether anything is.
    static func apply(_ settings: QueueSettings, to claim: inout ClaimedJob) -> Bool {
        claim.asksQuietHours = settings.quiet.includes(
            claim.message.pushType, in: claim.lane, hasOwn: claim.hasOwnQuietHours)
        if let cap = settings.cap, cap.includes(claim.message.pushType, in: claim.lane) {
            claim.capAnswer = CapAnswer(isWhole: cap.hasCounted(messageMadeAt: claim.madeAt, ago: claim.age))
        }
        return claim.asksQuietHours || claim.capAnswer != nil || claim.badgeIncrement != nil
    }

    /// Jobs of several queues in parts, each for one statement.
    static func parts(of jobs: [ClaimedJob]) -> [[ClaimedJob]] {
        var parts: [[ClaimedJob]] = []
        var recipients = enoughRecipients
        for job in jobs {
            if recipients >= enoughRecipients {
                parts.append([])
                recipients = 0
            }
            parts[parts.count - 1].append(job)
            recipients += job.recipientCount
        }
        return parts
    }
}
