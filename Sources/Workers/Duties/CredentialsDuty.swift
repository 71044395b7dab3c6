import PostgresStore
import QueueCore

/// Reports certificates that expire: 30, 14 and 7 days and one day before the end, and at the end.
struct CredentialsDuty: Duty {
    let name = "credentials"
    let pause = Duration.seconds(600)

    private let store: RetryingConnection
    private let report: (EngineEvent) -> Void

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
        report = context.report
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        for credential in try await store.connection().noteExpiringCredentials() {
            report(
                .credentialExpires(
                    name: "\(credential.tenant)/\(credential.name)", warning: credential.expiry.warning ?? "",
                    queues: credential.queueCount))
        }
    }
}
