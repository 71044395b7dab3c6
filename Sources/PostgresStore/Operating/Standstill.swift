package import FoundationEssentials
package import QueueCore

extension Statement {
    /// Everything that could stop a campaign or a send. Workers write a heartbeat every five seconds. Of a send, the
    /// statement reads the first thousand jobs.
    static let standstill = Statement(
        "standstill",
        #"""
        select paused_reason, awaits_credential, tenant, tenant_is_suspended, lacks_credential, campaign_key as key,
               campaign_is_paused, campaign_paused_reason, alive, serving, cut_off, in_outage, refusal, unusable, fault,
               credential, set_aside, due_at, awaits_decision, is_cancelled, prevented, prevention
        from pushq.show_standstill($queue, $root)
        """#)
}

/// Why a campaign or a send makes no progress.
package enum Standstill: Equatable, Sendable, CustomStringConvertible {
    case queuePaused(queue: QueueName, reason: String)
    /// The queue is paused because APNs refused its credential, as the reason says.
    case credentialRefused(queue: QueueName, reason: String)
    /// The queue is undecided: no operator has decided about its recipients since the restore.
    case databaseRestored
    case tenantSuspended(String)
    case campaignPaused(queue: QueueName, key: String, reason: String?)
    case noCredential(queue: QueueName)
    case jobsSetAside(Int, queue: QueueName)
    case noWorker
    case noWorkerServes(queue: QueueName)
    case credentialUnusable(worker: String, credential: String, reason: String)
    case apnsUnreachable(worker: String)
    /// APNs is in reach, and refuses most pushes at present or answers `nothing`. Workers claim nothing meanwhile, not
    /// even jobs that were cancelled.
    case apnsRefuses(String, isCancelled: Bool)
    /// PostgreSQL refuses the worker what it needs to send.
    case workerPrevented(worker: String, problem: String)
    case notDue(Date)

    package var description: String {
        switch self {
        case .queuePaused(let queue, let reason):
            "the queue is paused: \(reason). Resume it with: pushq-admin queue resume \(queue)"
        case .credentialRefused(let queue, let reason):
            "the queue is paused: \(reason). If the credential is right, resume it with: pushq-admin queue resume \(queue)"
        case .databaseRestored:
            "the database was restored, and what waits may have been sent already. Decide with: pushq-admin restore show"
        case .tenantSuspended(let name):
            "tenant \(name) is suspended. Resume it with: pushq-admin tenant resume \(ShellWords.quoted(name))"
        case .campaignPaused(let queue, let key, let reason):
            "the campaign \(reason.map { "has paused itself: \($0)" } ?? "is paused"). Resume it with: "
                + "pushq-admin campaign resume \(queue) \(ShellWords.argument(key))"
        case .noCredential(let queue):
            "queue \(MissingCredential(queue: queue.description))"
        case .jobsSetAside(let count, let queue):
            "\(count) of its jobs are set aside, because PostgreSQL refuses to store their end. See: pushq-admin job list \(queue) --set-aside"
        case .noWorker: "no worker is running. Start one with: pushq work"
        case .noWorkerServes(let queue): "no running worker serves \(queue). See: pushq-admin worker list"
        case .credentialUnusable(let worker, let credential, let reason):
            "worker \(worker) cannot use credential \(credential): \(reason)"
        case .apnsUnreachable(let worker): "worker \(worker) cannot reach APNs; its log says why"
        case .apnsRefuses(let answer, let isCancelled):
            "APNs answers \(answer); "
                + (isCancelled
                    ? "pushes that wait are not sent, and count as cancelled when it is tried next"
                    : "pushes wait, and are tried again")
        case .workerPrevented(let worker, let problem): "worker \(worker) does not send: \(problem)"
        case .notDue(let date): "nothing is due before \(date.formatted(.iso8601))"
        }
    }
}

extension PostgresConnection {
    /// Returns what stops a campaign or a send at this moment; nil if no cause is known.
    package func standstill(ofRoot root: Int64, inQueue queue: QueueName) async throws(PostgresError) -> Standstill? {
        guard let row = try await execute(.standstill, ["queue": .queue(queue), "root": .int8(root)]).first else {
            return nil
        }
        if row.bool("awaits_decision") { return .databaseRestored }
        if let reason = row.optionalText("paused_reason") {
            return row.bool("awaits_credential")
                ? .credentialRefused(queue: queue, reason: reason) : .queuePaused(queue: queue, reason: reason)
        }
        if row.bool("tenant_is_suspended") { return .tenantSuspended(row.text("tenant")) }
        if row.bool("campaign_is_paused") {
            return .campaignPaused(
                queue: queue, key: row.text("key"), reason: row.optionalText("campaign_paused_reason"))
        }
        if row.bool("lacks_credential") { return .noCredential(queue: queue) }
        if !row.bool("alive") { return .noWorker }
        if !row.bool("serving") { return .noWorkerServes(queue: queue) }
        if let date = row.optionalTime("due_at") { return .notDue(date) }
        if let trouble = Standstill(troubleIn: row) { return trouble }
        let setAside = row.count("set_aside")
        return setAside > 0 ? .jobsSetAside(setAside, queue: queue) : nil
    }
}

extension Standstill {
    /// Reads what the workers that serve the queue report about it.
    fileprivate init?(troubleIn row: Row) {
        if let worker = row.optionalText("unusable") {
            self = .credentialUnusable(
                worker: worker, credential: "\(row.text("tenant"))/\(row.optionalText("credential") ?? "-")",
                reason: row.optionalText("fault") ?? "its log says why")
        } else if let worker = row.optionalText("cut_off") {
            self = .apnsUnreachable(worker: worker)
        } else if let worker = row.optionalText("in_outage") {
            self = .apnsRefuses(
                row.optionalText("refusal") ?? "with refusals: the log of worker \(worker) says which",
                isCancelled: row.bool("is_cancelled"))
        } else if let worker = row.optionalText("prevented") {
            self = .workerPrevented(worker: worker, problem: row.optionalText("prevention") ?? "its log says why")
        } else {
            return nil
        }
    }
}
