import LocalStack
import Terminal

/// The CPU time of each process in seconds, to show where the time of a campaign goes.
struct DemoCPU: Sendable {
    var postgres = 0.0
    var workers = 0.0
    var simulator = 0.0

    /// The CPU time used since `earlier`.
    func since(_ earlier: DemoCPU) -> DemoCPU {
        DemoCPU(
            postgres: postgres - earlier.postgres, workers: workers - earlier.workers,
            simulator: simulator - earlier.simulator)
    }

    /// The figures as rows of the demo's table.
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
    /// The CPU time that the server, the workers and the simulator have used so far.
    func cpu(of workers: [ChildProcess], _ simulator: StackSimulator) -> DemoCPU {
        DemoCPU(
            postgres: postgres.backendCPU().seconds,
            workers: workers.reduce(0) { $0 + Self.cpu(of: $1.processID) },
            simulator: Self.cpu(of: simulator.processID))
    }

    private static func cpu(of process: Int32) -> Double { ProcessTimes(of: process)?.cpu.seconds ?? 0 }
}
