import PostgresStore
import QueueCore

/// What a worker asks about a job before it sends: which recipients have quiet hours, which a frequency cap holds back,
/// and which numbers the badges of the others get.
enum PreSendChecks {
    /// The number of recipients that are enough for one statement. A statement for caps locks the rows of their devices
    /// while it runs, for about 50 ms.
    static let enoughRecipients = 5000

    /// Notes what has to be asked about a job. Returns whether there is anything to ask.
    static func noteQuestions(of settings: QueueSettings, about claim: inout ClaimedJob) -> Bool {
        claim.asksQuietHours = settings.quiet.includes(
            claim.message.pushType, in: claim.lane, hasOwn: claim.hasOwnQuietHours)
        if let cap = settings.cap, cap.includes(claim.message.pushType, in: claim.lane) {
            claim.capAnswer = CapAnswer(isWhole: cap.hasCounted(messageMadeAt: claim.madeAt, ago: claim.age))
        }
        return claim.asksQuietHours || claim.capAnswer != nil || claim.badgeIncrement != nil
    }

    /// Divides the jobs of several queues into parts, one for each statement.
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
