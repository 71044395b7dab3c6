import Foundation
import LocalStack
import PostgresStore
import QueueCore
import Transport

/// Measures campaigns with one payload for all, in five languages, and with two placeholders in each language, in turn:
/// how many recipients a second get an outcome, from the start to the last one, and what a recipient costs PostgreSQL.
enum Personalised {
    private static let queue = QueueName(tenant: "personal", app: "com.personal", environment: .production)
    private static let languages = ["de", "fr", "es", "pt-BR"]

    private static func payload(_ text: String) -> String {
        #"{"aps":{"alert":{"title":"\#(text)","body":"Everything must go by the end of the week"},"sound":"default"}}"#
    }

    private static func translated(_ text: String) -> String {
        let versions = languages.map { #""\#($0)":\#(payload("\($0): \(text)"))"# }.joined(separator: ",")
        return #"{"default":\#(payload(text)),"languages":{\#(versions)}}"#
    }

    private static let messages: [(name: String, payload: String)] = [
        ("plain", payload("Hello")),
        ("translated", translated("Hello")),
        ("personal", translated("Hello {{name|there}}, {{points}} points")),
    ]

    static func measure(devices: Int) async throws {
        let stack = try await BenchStack(latency: .milliseconds(5))
        try await stack.makeQueue(queue, devices: devices)
        try await stack.withStore { store in
            try await store.runScript(
                """
                insert into pushq.profile (queue_id, device_id, locale, attributes)
                select queue_id, id, (array['de-AT', 'fr', 'es-MX', 'pt-BR', 'en-GB'])[1 + (id >> 10) % 5],
                       jsonb_build_object('name', 'Name ' || id, 'points', (id >> 10) % 1000, 'plan', 'pro', 'city', 'Wien')
                from pushq.device;
                analyze pushq.profile
                """, within: .seconds(300))
        }
        try stack.startWorker()
        for round in 0...3 {
            for (name, payload) in messages {
                let line = try await run(payload, key: "\(name) \(round)", devices: devices, stack)
                // The first campaign of each kind fills caches.
                if round > 0 { print("\(name): \(line)") }
            }
        }
        await stack.end()
    }

    private static func run(_ payload: String, key: String, devices: Int, _ stack: BenchStack) async throws -> String {
        let line = Locked("")
        try await stack.withStore { store in
            let (cpu, start) = (stack.postgres.backendCPU(), ContinuousClock.now)
            _ = try await store.startCampaign(
                CampaignDraft(MessageDraft(payload: payload), key: key, inQueue: queue))
            while try await store.campaign(key, ofQueue: queue)?.isFinished != true {
                try await Task.sleep(for: .milliseconds(20))
            }
            let seconds = start.duration(to: .now) / .seconds(1)
            let microseconds = (stack.postgres.backendCPU() - cpu) / .microseconds(1) / Double(devices)
            let campaign = try await store.campaign(key, ofQueue: queue)
            precondition(campaign?.tally.delivered == devices, "every device gets a push")
            let shown = microseconds.formatted(.number.precision(.fractionLength(2)))
            line.withLock {
                $0 = "\(Int(Double(devices) / seconds)) recipients a second, \(shown) µs of PostgreSQL's CPU each"
            }
        }
        return line.withLock { $0 }
    }
}
