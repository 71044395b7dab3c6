import PostgresStore

/// The recipients that could not be asked about before sending, because an open transaction of their tenant keeps their
/// badges or places under a cap (`pushq.take_badges`, `pushq.hold_to_caps`).
///
/// A statement about such recipients waits for some milliseconds. So they are asked about ever more rarely, and after
/// all others: first the tenants that keep nothing, together; then what else the other tenants send, each by itself;
/// then recipients that are known. Each worker learns this by itself.
struct KeptRecipients {
    /// The time after which a tenant or a recipient of which nothing more was kept is like the others.
    private static let memory = Duration.seconds(60)
    private static let pauses = Duration.seconds(1)...Duration.seconds(30)
    /// The number of recipients remembered of a tenant.
    private static let maximumCount = 10_000
    /// What a claim may wait for kept rows in all, once before it sends and once to look for those that it cannot have.
    private static let longestWait = Duration.milliseconds(60)

    /// How long something has been kept without a pause in between.
    private struct Time {
        let since: ContinuousClock.Instant
        var last: ContinuousClock.Instant

        init(_ now: ContinuousClock.Instant) { (since, last) = (now, now) }

        func isOver(_ now: ContinuousClock.Instant) -> Bool { last.duration(to: now) >= memory }
    }

    private struct Tenant {
        var kept: Time
        var recipients: [Int64: Time] = [:]
    }

    private var tenants: [Int32: Tenant] = [:]

    /// How long a statement may wait for kept rows: shorter if one claim has statements about many tenants.
    static func patience(amongGroups count: Int) -> Duration {
        max(.milliseconds(1), min(PostgresConnection.rowPatience, longestWait / max(1, count)))
    }

    /// Divides jobs into groups, in the order in which to ask about them. No group is empty.
    mutating func groups(of jobs: [ClaimedJob], tenant: (ClaimedJob) -> Int32, now: ContinuousClock.Instant)
        -> [[ClaimedJob]]
    {
        tenants = tenants.filter { !$0.value.kept.isOver(now) }
        var others: [ClaimedJob] = []
        var apart: [Int32: (new: [ClaimedJob], known: [ClaimedJob])] = [:]
        for job in jobs {
            let id = tenant(job)
            guard let recipients = tenants[id]?.recipients else {
                others.append(job)
                continue
            }
            if job.deviceIDs.contains(where: { recipients[$0]?.isOver(now) == false }) {
                apart[id, default: ([], [])].known.append(job)
            } else {
                apart[id, default: ([], [])].new.append(job)
            }
        }
        return ([others] + apart.values.map(\.new) + apart.values.map(\.known)).filter { !$0.isEmpty }
    }

    /// Notes the answers about a job, and sets how long its kept recipients wait: as long as the recipient has been
    /// kept and the message has waited, so twice as long each time, from a second to half a minute.
    mutating func note(_ job: inout ClaimedJob, of id: Int32, now: ContinuousClock.Instant) {
        let atCap = job.capAnswer?.held.filter { $0.value == .whileKept }.keys.map(\.self) ?? []
        let kept = job.lockedBadges.union(atCap)
        // Removed, not copied, because it may have many recipients.
        guard var tenant = tenants.removeValue(forKey: id) ?? (kept.isEmpty ? nil : Tenant(kept: Time(now))) else {
            return
        }
        if !kept.isEmpty { tenant.kept.last = now }
        for device in job.deviceIDs {
            guard kept.contains(device) else {
                tenant.recipients[device] = nil
                continue
            }
            let last = tenant.recipients[device].flatMap { $0.isOver(now) ? nil : $0 }
            var time = last ?? Time(now)
            time.last = now
            if tenant.recipients.count >= Self.maximumCount, tenant.recipients[device] == nil {
                tenant.recipients = tenant.recipients.filter { !$0.value.isOver(now) }
            }
            if tenant.recipients.count < Self.maximumCount || tenant.recipients[device] != nil {
                tenant.recipients[device] = time
            } else {
                time = tenant.kept
            }
            let waited = min(time.since.duration(to: now), job.age)
            job.keptFor[device] = min(max(waited, Self.pauses.lowerBound), Self.pauses.upperBound)
        }
        tenants[id] = tenant
    }
}
