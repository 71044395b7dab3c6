import PostgresStore

/// How a worker asks the frequency caps of queues before it sends.
enum FrequencyCaps {
    /// The number of recipients from which the jobs of a statement are enough: it locks their devices' rows while it
    /// runs, for some 50 ms.
    static let enoughRecipients = 5000

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
