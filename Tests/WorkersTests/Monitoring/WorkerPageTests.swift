import Metrics
import QueueCore
import Testing

@testable import Workers

@Suite struct `The page of metrics` {
    @Test func `has each series once, whatever the outcomes were`() throws {
        var snapshot = EngineSnapshot()
        var counts = QueueCounts()
        counts.noteEnd(in: .bulk, outcomes: Array(0...255))
        snapshot.queues[QueueName(tenant: "acme", app: "com.acme", environment: .sandbox)] = counts
        let page = WorkerPage(
            engines: [snapshot], past: EngineSnapshot(), responding: 1, admission: QueueAdmission(), version: "1",
            process: ProcessMetrics())
        for family in page.families() {
            let labels = family.samples.map(\.labels)
            #expect(Set(labels).count == labels.count, "\(family.metric.name)")
        }
        let outcomes = try #require(page.families().first { $0.metric.name == "pushq_outcomes" })
        let suppressed = outcomes.samples.filter { $0.labels.contains("suppressed") }.map { $0.labels.last ?? "" }
        #expect(Set(suppressed) == ["", "lacks_attribute", "too_long", "frequency_cap", "quiet_hours"])
        let counted = outcomes.samples.reduce(0) { sum, sample in
            if case .integer(let count) = sample.value { sum + count } else { sum }
        }
        #expect(counted == 256)
    }
}
