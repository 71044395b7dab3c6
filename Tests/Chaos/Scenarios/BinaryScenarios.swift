import LocalStack
import QueueCore
import TestSupport

/// Faults over the binary interface, where silence is the answer and each error ends its connection.
extension Scenario {
    static var binary: [Scenario] {
        [
            Scenario(
                name: "binary-kill-worker", adjust: { settings, _ in useBinary(&settings, badShare: 0.002) },
                expectation: withBadTokens(),
                disturb: { trial in
                    try await trial.begin(workers: 3)
                    for _ in 0..<(trial.isShort ? 6 : 20) {
                        try await trial.pause(between: 0.1, and: 1)
                        try await trial.keepBusy()
                        await trial.killOne()
                    }
                }),
            Scenario(
                name: "binary-bad-tokens", adjust: { useBinary(&$0, badShare: $1 ? 0.01 : 0.05) },
                expectation: withBadTokens(),
                disturb: { trial in
                    try await trial.begin()
                    for _ in 0..<2 {
                        try await trial.pause(between: 0.5, and: 2)
                        await trial.killOne()
                    }
                }),
            Scenario(
                name: "binary-deploy", adjust: { settings, _ in useBinary(&settings, badShare: 0.002) },
                expectation: withBadTokens(.clean), disturb: { try await $0.deploy(times: $0.isShort ? 2 : 10) }),
            Scenario(
                name: "binary-apns-killed", adjust: { settings, _ in useBinary(&settings, badShare: 0.002) },
                expectation: withBadTokens(.lossy), disturb: { try await $0.killSimulators(awayAtMost: 1) }),
            Scenario(
                name: "binary-apns-resets",
                adjust: { settings, _ in
                    useBinary(&settings, badShare: 0)
                    settings.rules = #"{"latency_ms": [50, 100], "reset": {"after_requests": 1000}}"#
                    // At this rate, a connection of one of the two workers is reset after five seconds. So its last
                    // pushes, which a reset may lose, are fewer than half of them, and a worker that sent all of them
                    // again would exceed the bound.
                    settings.sql = """
                        insert into pushq.rate_limit (tenant_id, queue_id, rate, burst)
                        select tenant_id, id, 400, 40 from pushq.queue where id = $queue
                        """
                }, expectation: .lossy,
                disturb: { trial in
                    try await trial.begin()
                    try await trial.pause(.seconds(trial.isShort ? 12 : 20))
                    try await trial.drainAll()
                    try await trial.rig.restartSimulator(rules: #"{"latency_ms": [50, 100]}"#)
                    trial.faultIsOver()
                    try trial.rig.startWorker()
                }),
            Scenario(
                name: "half-open-binary", isLong: true,
                adjust: { settings, _ in
                    useBinary(&settings, badShare: 0.002)
                    // This is more than the windows of both workers hold, so that the line is cut while a window is
                    // full.
                    settings.devices = 30_000
                }, expectation: withBadTokens(.lossy),
                disturb: { trial in
                    let proxy = try SilentProxy(toPort: trial.rig.simulator.ready.binaryPort)
                    try trial.rig.startWorker(binaryGateway: proxy.address)
                    try await trial.begin(workers: 1)
                    try await trial.pause(between: 0, and: 0.5)
                    proxy.cutLines()
                    trial.noteDeafness()
                    // The worker waits for missing acknowledgements and probes as long as for a PING over HTTP/2.
                    try await trial.rig.waitUntilFinished(within: .seconds(150))
                    trial.faultIsOver()
                    try await trial.startCampaign()
                    try await trial.rig.waitUntilFinished()
                    proxy.close()
                }),
        ]
    }

    /// Devices with bad tokens become inactive while other campaigns are sent, whose recipients among them end as
    /// suppressed. They end as unknown where a push was lost before, with its worker or with its connection.
    private static func withBadTokens(_ expectation: Audit.Expectation = .init()) -> Audit.Expectation {
        expectation.ending(.suppressed, .unknown)
    }

    private static func useBinary(_ settings: inout Rig.Settings, badShare: Double) {
        settings.isBinary = true
        settings.rules =
            #"{"latency_ms": [50, 100], "outcomes": [{"share": \#(badShare), "reason": "BadDeviceToken"}]}"#
    }
}

extension Trial {
    /// Kills a worker and starts another one.
    fileprivate func killOne() async {
        guard let worker = running.randomElement(using: &random) else { return }
        await worker.kill()
        faultIsOver()
        _ = try? rig.startWorker()
    }
}
