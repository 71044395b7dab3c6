import Glibc
import LocalStack
import TestSupport

/// Workers that are killed, stopped or replaced.
extension Scenario {
    static var workers: [Scenario] {
        [
            Scenario(name: "kill-worker") { trial in
                try await trial.begin(workers: 3)
                for _ in 0..<20 {
                    try await trial.pause(between: 0.1, and: 0.6)
                    try await trial.keepBusy()
                    guard let worker = trial.running.randomElement(using: &trial.random) else { break }
                    await worker.kill()
                    trial.faultIsOver()
                    try trial.rig.startWorker()
                }
            },
            Scenario(
                name: "kill-all-workers",
                // A step of the fan-out creates jobs for 20,000 devices, so workers may be killed between two steps.
                adjust: { settings, _ in settings.devices = 30_000 },
                disturb: { trial in
                    try await trial.startWorkers(3)
                    try await trial.startCampaign()
                    try await trial.pause(between: 0, and: 0.2)
                    try trial.killAll()
                    try await trial.rig.waitUntilEnded(trial.rig.settings.devices / 10)
                    for _ in 0..<2 {
                        try await trial.pause(between: 0.1, and: 0.8)
                        try await trial.keepBusy()
                        try trial.killAll()
                        try await trial.pause(trial.rig.settings.lease)
                    }
                }),
            Scenario(name: "stop-past-lease") { trial in
                try await trial.begin()
                let sleeper = trial.running[0]
                sleeper.process.signal(SIGSTOP)
                trial.faultIsOver()
                try await trial.pause(trial.rig.settings.lease + .seconds(6))
                try await trial.rig.waitUntilFinished()
                try await trial.noteWaking {
                    sleeper.process.signal(SIGCONT)
                    try await sleeper.says("leases_lost")
                }
                try await trial.startCampaign()
            },
            Scenario(name: "deploy", expectation: .clean) { trial in
                try await trial.deploy(times: trial.isShort ? 4 : 20)
            },
            Scenario(name: "shut-down", expectation: .clean) { trial in
                for _ in 0..<(trial.isShort ? 2 : 10) {
                    try await trial.begin()
                    for worker in trial.running { worker.signal(SIGTERM) }
                    for worker in trial.rig.workers {
                        let exit = await worker.process.waitForExit(within: .seconds(60))
                        guard exit == .code(0) else { throw NeverHappened(description: "\(worker.name) did not drain") }
                    }
                    trial.faultIsOver()
                }
                try trial.rig.startWorker()
            },
        ]
    }
}

extension Audit.Expectation {
    /// No push may be repeated.
    static var clean: Self {
        var expectation = Self()
        expectation.isClean = true
        return expectation
    }

    /// Requests that are in flight may be lost with their connection.
    static var lossy: Self {
        var expectation = Self()
        expectation.losesConnections = true
        return expectation
    }
}

extension Trial {
    /// Kills all workers at once, and starts as many.
    fileprivate func killAll() throws {
        let doomed = running
        for worker in doomed { worker.signal(SIGKILL) }
        faultIsOver()
        for _ in doomed { try rig.startWorker() }
    }

    /// Sends with one worker, and replaces it with a new one repeatedly.
    func deploy(times: Int) async throws {
        try await begin(workers: 1)
        for _ in 0..<times {
            try await keepBusy()
            try await rig.startWorker().says("started")
            guard await running[0].drain() == .code(0) else {
                throw NeverHappened(description: "a worker did not drain")
            }
            faultIsOver()
            try await pause(.seconds(1))
        }
    }
}
