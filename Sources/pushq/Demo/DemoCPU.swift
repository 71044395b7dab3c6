import LocalStack
import Terminal

/// CPU time by process, in seconds: where the time of a campaign goes.
struct DemoCPU: Sendable {
    var postgres = 0.0
    var workers = 0.0
    var simulator = 0.0

    /// What was used since `earlier`.
    func since(_ earlier: DemoCPU) -> DemoCPU {
        DemoCPU(
            postgres: postgres - earlier.postgres, workers: workers - earlier.workers,
            simulator: simulator - earlier.simulator)
    }

    /// As rows of the demo's table.
    var rows: [(String, Cell)] {
        [
            ("PostgreSQL", .decimal(postgres, places: 2)), ("workers", .decimal(workers, places: 2)),
            ("the local APNs", .decimal(simulator, places: 2)),
        ]
    }

    var json: JSON {
        [
            "postgres": .decimal(postgres, places: 2), "workers": .decimal(workers, places: 2),
            "simulator": .decimal(simulator, places: 2),
        ]
    }
}

extension Stack {
    /// CPU time so far of the server, the workers and the simulator.
    func cpu(of workers: [ChildProcess], _ simulator: StackSimulator) -> DemoCPU {
        DemoCPU(
            postgres: postgres.backendCPU().seconds,
            workers: workers.reduce(0) { $0 + Self.cpu(of: $1.processID) },
            simulator: Self.cpu(of: simulator.processID))
    }

    private static func cpu(of process: Int32) -> Double { ProcessTimes(of: process)?.cpu.seconds ?? 0 }
}
