import PostgresStore
import QueueCore

/// Reports certificates that expire: 30, 14 and 7 days and one day before the end, and at the end. Resumes queues whose
/// credential APNs has refused, from time to time, so that they go on when it is accepted again.
///
/// Belongs to the engine's event loop.
final class CredentialsDuty: Duty {
    let name = "credentials"
    /// The pause. It is short after a run that found a certificate locked, as by a worker that pauses its queue at that
    /// moment.
    private(set) var pause = CredentialsDuty.usualPause
    let longestPause = CredentialsDuty.usualPause

    private static let usualPause = Duration.seconds(300)
    private static let retry = Duration.seconds(5)

    private let store: RetryingConnection
    private let report: (EngineEvent) -> Void

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
        report = context.report
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        let connection = try await store.connection()
        while try await connection.retryRefusedQueues() > 0, try await lease.mayContinue() {}
        let due = try await connection.noteExpiringCredentials()
        pause = due.areAll ? Self.usualPause : Self.retry
        for credential in due.noted {
            report(
                .credentialExpires(
                    name: "\(credential.tenant)/\(credential.name)", warning: credential.expiry.warning ?? "",
                    queues: credential.queueCount))
        }
    }
}
