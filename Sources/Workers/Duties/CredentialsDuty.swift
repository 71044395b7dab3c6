import PostgresStore
import QueueCore

/// Says that certificates come to their end: 30, 14, 7 days and one day before it, and once it is there.
struct CredentialsDuty: Duty {
    let name = "credentials"
    let pause = Duration.seconds(600)

    private let store: EngineStore
    private let report: (EngineEvent) -> Void

    init(_ context: EngineContext) {
        store = context.stores.upkeep
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
