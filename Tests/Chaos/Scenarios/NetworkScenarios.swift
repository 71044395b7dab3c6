import Glibc
import LocalStack
import QueueCore
import TestSupport

/// An APNs that dies, resets, goes silent, sends GOAWAY or refuses.
extension Scenario {
    static var network: [Scenario] {
        [
            Scenario(name: "apns-killed", expectation: .lossy) { try await $0.killSimulators(awayAtMost: 2) },
            Scenario(
                name: "apns-resets",
                adjust: { settings, _ in settings.rules = storm(#""reset": {"after_requests": 400}"#) },
                expectation: .lossy, disturb: { try await weather($0) }),
            Scenario(
                name: "goaway-storm",
                adjust: { settings, _ in settings.rules = storm(#""go_away": {"after_requests": 400}"#) },
                expectation: .clean, disturb: { try await weather($0) }),
            Scenario(
                name: "refusal-storm",
                adjust: { settings, _ in
                    settings.devices = 4000
                    settings.rules = storm(
                        #""outcomes": [{"probability": 0.2, "reason": "ServiceUnavailable", "times": 2}]"#)
                }, expectation: .clean,
                disturb: { trial in
                    try await trial.begin()
                    trial.faultIsOver()
                }),
            Scenario(
                name: "outage-of-503",
                adjust: { settings, _ in
                    settings.devices = 2000
                    settings.rules = outage
                    // If an outage used up attempts, two would be gone within seconds.
                    settings.sql = "update pushq.queue set max_attempts = 2 where id = $queue"
                }, expectation: .clean.ending(.expired),
                disturb: { trial in
                    for _ in 0..<2 { try trial.rig.startWorker() }
                    try await trial.rig.startCampaign(key: "for a day")
                    try await trial.rig.startCampaign(
                        key: "for a moment", options: ", send_by => now() + interval '8 s'")
                    try await trial.rig.workers[0].says("outage_begun", within: .seconds(60))
                    try await trial.pause(.seconds(trial.isShort ? 20 : 300))
                    try await trial.rig.restartSimulator(rules: storm(#""outcomes": []"#))
                    trial.faultIsOver()
                    try await trial.rig.waitUntilFinished(within: .seconds(180))
                    for (key, outcome) in [("for a day", "delivered"), ("for a moment", "expired")] {
                        let count = try await trial.rig.number(
                            "select \(outcome) from pushq.campaign_progress where key = '\(key)'")
                        guard count == trial.rig.settings.devices else {
                            throw NeverHappened(description: "of the campaign “\(key)” \(count) are \(outcome)")
                        }
                    }
                }),
            Scenario(name: "apns-stalls", expectation: .clean) { trial in
                try await trial.begin()
                for _ in 0..<2 {
                    trial.rig.simulator.signal(SIGSTOP)
                    try await trial.pause(trial.rig.settings.lease + .seconds(1))
                    trial.rig.simulator.signal(SIGCONT)
                    trial.faultIsOver()
                    // Without a pause, it would be away for longer than a PING may take.
                    try await trial.pause(.seconds(3))
                    try await trial.keepBusy()
                }
            },
            Scenario(name: "half-open-apns", expectation: .lossy) { trial in
                let proxy = try SilentProxy(toPort: trial.rig.simulator.ready.port)
                try trial.rig.startWorker(gateway: proxy.address)
                try await trial.begin(workers: 1)
                proxy.fallSilent()
                trial.noteDeafness()
                // The worker waits until a PING stays unanswered, or the answers are overdue.
                try await trial.rig.waitUntilFinished(within: .seconds(150))
                trial.faultIsOver()
                try await trial.startCampaign()
                try await trial.rig.waitUntilFinished()
                proxy.close()
            },
        ]
    }

    /// Only answers with 503.
    private static let outage = storm(#""outcomes": [{"probability": 1, "reason": "ServiceUnavailable"}]"#)

    private static func storm(_ rules: String) -> String { #"{"latency_ms": [50, 100], \#(rules)}"# }

    /// Sends during a storm for a while, then restarts the simulator without it.
    private static func weather(_ trial: Trial) async throws {
        for _ in 0..<2 { try trial.rig.startWorker() }
        try await trial.startCampaign()
        try await trial.pause(.seconds(trial.isShort ? 5 : 30))
        try await trial.drainAll()
        try await trial.rig.restartSimulator(rules: storm(#""outcomes": []"#))
        trial.faultIsOver()
        for _ in 0..<2 { try trial.rig.startWorker() }
    }
}

extension Trial {
    /// Kills the simulator repeatedly, and restarts it after at most `most` seconds.
    func killSimulators(awayAtMost most: Double) async throws {
        try await begin()
        // The long form kills six, and a push that was in flight each time is given up after the fifth.
        if !isShort { mayEnd(as: .unknown) }
        for _ in 0..<(isShort ? 2 : 6) {
            try await pause(between: 0.3, and: 1)
            await rig.simulator.kill()
            try await pause(between: 0.1, and: most)
            try await rig.restartSimulator()
            faultIsOver()
            try await keepBusy()
        }
    }
}
