import PostgresStore
import QueueCore
import TestSupport

/// One tenant has a problem of its own making, and another tenant must not notice it.
extension Scenario {
    static var tenants: [Scenario] {
        [
            Scenario(
                name: "tenant-floods", adjust: { settings, _ in settings.hasNeighbour = true }, expectation: .clean,
                disturb: { trial in
                    try await trial.begin()
                    let neighbour = Neighbour(trial.rig)
                    try await trial.work(beside: neighbour, for: .seconds(trial.isShort ? 10 : 60)) {
                        // Everything is urgent, and more is enqueued than can be sent.
                        try await trial.rig.run(flood(of: trial.isShort ? 500 : 2000, for: trial))
                    }
                    trial.faultIsOver()
                    try neighbour.check(atMost: .seconds(2))
                    let held = "select (select count(*) from pushq.job) + (select count(*) from pushq.lease)"
                    try await wait(
                        for: "the end of the flood", within: .seconds(120), { try await trial.rig.number(held) },
                        until: { $0 == 0 })
                }),
            Scenario(
                name: "tenant-unanswered",
                adjust: { settings, _ in
                    settings.hasNeighbour = true
                    settings.devices = 2000
                    settings.rules = only(#"{"topic": "com.acme", "answer": false}"#)
                },
                // A connection on which one answer is overdue is closed with all its pushes, so within a minute and a
                // half a push may be lost five times.
                expectation: .lossy.ending(.unknown),
                disturb: { trial in
                    for _ in 0..<2 { try trial.rig.startWorker() }
                    try await trial.startCampaign()
                    let neighbour = Neighbour(trial.rig)
                    try await trial.work(beside: neighbour, for: .seconds(trial.isShort ? 15 : 90)) {}
                    try neighbour.check(atMost: .seconds(2))
                    try await trial.rig.restartSimulator(rules: only(nil))
                    trial.faultIsOver()
                }),
            Scenario(
                name: "tenant-refused", adjust: { settings, _ in settings.hasNeighbour = true }, expectation: .lossy,
                disturb: { trial in
                    try await trial.begin()
                    // Apple revokes the credential while a campaign is sent.
                    try await trial.rig.restartSimulator(
                        rules: only(#"{"topic": "com.acme", "reason": "InvalidProviderToken"}"#))
                    trial.faultIsOver()
                    let paused = "select count(*) from pushq.queue where paused_at is not null"
                    let neighbour = Neighbour(trial.rig)
                    try await wait(
                        for: "the queue to pause", within: .seconds(30), { try await trial.rig.number(paused) },
                        until: { $0 > 0 })
                    try await trial.work(beside: neighbour, for: .seconds(trial.isShort ? 10 : 60)) {}
                    guard try await trial.rig.number(paused) == 1 else {
                        throw NeverHappened(description: "the neighbour's queue is paused, too")
                    }
                    try neighbour.check(atMost: .seconds(2))
                    try await trial.rig.restartSimulator(rules: only(nil))
                    try await trial.rig.store.current().resumeQueue(trial.rig.queue)
                    trial.faultIsOver()
                }),
        ]
    }

    /// Returns SQL that sends urgent single pushes of the tenant that floods.
    private static func flood(of count: Int, for trial: Trial) -> String {
        """
        select pushq.send('\(trial.rig.queue)', '{"aps":{"alert":"flood"}}', array[encode(token, 'hex')], urgent => true)
        from pushq.device where queue_id = pushq.queue_id('\(trial.rig.queue)') order by id limit \(count)
        """
    }

    /// Returns rules with a short latency, and `outcome` as the only outcome.
    private static func only(_ outcome: String?) -> String {
        #"{"latency_ms": [50, 100], "outcomes": [\#(outcome ?? "")]}"#
    }
}

extension Trial {
    /// Lets the neighbour send one push after the other for `time`, and runs `harm` between them.
    fileprivate func work(beside neighbour: Neighbour, for time: Duration, _ harm: () async throws -> Void) async throws
    {
        let end = ContinuousClock.now + time
        while ContinuousClock.now < end {
            try await harm()
            try await neighbour.send()
            try await pause(.milliseconds(50))
        }
    }
}
