import Metrics
import QueueCore
import Testing

@testable import Workers

@Suite struct `The page of metrics` {
    private static func page(of engines: [EngineSnapshot]) -> WorkerPage {
        WorkerPage(
            engines: engines, past: EngineSnapshot(), responding: engines.count, admission: QueueAdmission(),
            version: "1", process: ProcessMetrics())
    }

    @Test func `counts a queue out of reach once for the engines of its database, and those of all databases`() throws {
        let engines = [("one", 2), ("one", 3), ("two", 4)].map { database, unreachable in
            var snapshot = EngineSnapshot()
            (snapshot.database, snapshot.unreachableQueues) = (database, unreachable)
            return snapshot
        }
        let family = try #require(
            Self.page(of: engines).families().first { $0.metric.name == "pushq_queues_unreachable" })
        #expect(family.samples.count == 1)
        guard case .integer(7)? = family.samples.first?.value else {
            Issue.record("\(family.samples)")
            return
        }
    }

    @Test func `has each series once, whatever the outcomes were`() throws {
        var snapshot = EngineSnapshot()
        var counts = QueueCounts()
        counts.noteEnd(in: .bulk, outcomes: Array(0...255))
        snapshot.queues[QueueName(tenant: "acme", app: "com.acme", environment: .sandbox)] = counts
        let page = Self.page(of: [snapshot])
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
