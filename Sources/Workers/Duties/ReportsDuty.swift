import PostgresStore

/// Acts on reports of APNs about devices that were stored for later: the lists of the feedback service, and answers
/// that arrived while another transaction was writing the row of the device.
///
/// Every worker runs it, whether or not it can query the feedback service. Otherwise a dead device whose row was locked
/// at that moment would stay active for ever.
struct ReportsDuty: Duty {
    let name = "reports"
    let pause = Duration.seconds(10)

    private let store: RetryingConnection
    private let report: (EngineEvent) -> Void

    init(_ context: EngineContext) {
        store = context.postgres.upkeep
        report = context.report
    }

    func run(_ lease: DutyLease) async throws(PostgresError) {
        var total = (acted: 0, deactivated: 0)
        repeat {
            let step = try await store.connection().actOnFeedback()
            guard step.acted > 0 else { break }
            total = (total.acted + step.acted, total.deactivated + step.deactivated)
        } while try await lease.mayContinue()
        if total.acted > 0 { report(.feedbackActedOn(records: total.acted, deactivated: total.deactivated)) }
    }
}
