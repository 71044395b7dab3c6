import PostgresStore

/// The recipients that could not be asked about before sending, because an open transaction of their tenant keeps their
/// badges or places under a cap (`pushq.take_badges`, `pushq.hold_to_caps`).
///
/// A statement about such recipients waits for some milliseconds. So they are asked about ever more rarely, and after
/// all others: first the tenants that keep nothing, together; then what else the other tenants send, each by itself;
/// then recipients that are known. Each worker learns this by itself.
struct KeptRecipients {
    /// The time after which a tenant that kept nothing more is one like the others.
    private static let memory = Duration.seconds(60)
    private static let longestPause = Duration.seconds(30)
    /// The number of recipients remembered of a tenant. Further ones wait for the longest pause.
    private static let maximumCount = 10_000

    private struct Tenant {
        var keptAt: ContinuousClock.Instant
        var recipients: [Int64: Recipient] = [:]
    }

    private struct Recipient {
        var pause: Duration
        var notedAt: ContinuousClock.Instant
    }

    private var tenants: [Int32: Tenant] = [:]

    /// Divides jobs into groups, in the order in which to ask about them.
    mutating func groups(of jobs: [ClaimedJob], tenant: (ClaimedJob) -> Int32, now: ContinuousClock.Instant)
        -> [[ClaimedJob]]
    {
        tenants = tenants.filter { $0.value.keptAt.duration(to: now) < Self.memory }
        guard !tenants.isEmpty else { return [jobs] }
        var others: [ClaimedJob] = []
        var apart: [Int32: (new: [ClaimedJob], known: [ClaimedJob])] = [:]
        for job in jobs {
            let id = tenant(job)
            guard let recipients = tenants[id]?.recipients else {
                others.append(job)
                continue
            }
            if job.deviceIDs.contains(where: { recipients[$0] != nil }) {
                apart[id, default: ([], [])].known.append(job)
            } else {
                apart[id, default: ([], [])].new.append(job)
            }
        }
        return [others] + apart.values.map(\.new) + apart.values.map(\.known)
    }

    /// Notes the answers about a job, and sets how long its recipients wait that are kept: a second, and twice as long
    /// each time, up to half a minute.
    mutating func note(_ job: inout ClaimedJob, of tenant: Int32, now: ContinuousClock.Instant) {
        let atCap = job.capAnswer?.held.filter { $0.value == .whileKept }.keys.map(\.self) ?? []
        let kept = job.lockedBadges.union(atCap)
        if !kept.isEmpty { tenants[tenant, default: Tenant(keptAt: now)].keptAt = now }
        guard var known = tenants[tenant]?.recipients else { return }
        for device in job.deviceIDs {
            guard kept.contains(device) else {
                known[device] = nil
                continue
            }
            var pause = Duration.seconds(1)
            if let last = known[device] {
                // Another push to the device may have been asked about meanwhile.
                pause =
                    last.notedAt.duration(to: now) < last.pause ? last.pause : min(last.pause * 2, Self.longestPause)
                if pause > last.pause { known[device] = Recipient(pause: pause, notedAt: now) }
            } else if known.count < Self.maximumCount {
                known[device] = Recipient(pause: pause, notedAt: now)
            } else {
                pause = Self.longestPause
            }
            job.keptFor[device] = pause
        }
        tenants[tenant]?.recipients = known
    }
}
