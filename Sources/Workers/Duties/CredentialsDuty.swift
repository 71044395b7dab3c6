import PostgresStore
import QueueCore

/// Reports certificates that expire: 30, 14 and 7 days and one day before the end, and at the end.
///
/// Belongs to the engine's event loop.
final class CredentialsDuty: Duty {
    let name = "credentials"
    /// The pause. It is short after a run that found a certificate locked, as by a worker that pauses its queue at that
    /// moment.
    private(set) var pause = CredentialsDuty.usualPause
    let longestPause = CredentialsDuty.usualPause

    private static let usualPause = Duration.seconds(600)
    private static let retry = Duration.seconds(5)

    private let store: RetryingConnection
    private let report: (EngineEvent) -> Void

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
        report = context.report
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        let due = try await store.connection().noteExpiringCredentials()
        pause = due.areAll ? Self.usualPause : Self.retry
        for credential in due.noted {
            report(
                .credentialExpires(
                    name: "\(credential.tenant)/\(credential.name)", warning: credential.expiry.warning ?? "",
                    queues: credential.queueCount))
        }
    }
}
