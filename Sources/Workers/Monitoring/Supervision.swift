import APNs
package import Transport

/// Tells the service manager the state of a process's engines: ready after each has polled its database, or waits
/// because the database keeps it from starting; alive as long as the loops of all engines turn; and what they do.
///
/// Each sign of life is an answer of every engine, given on its own loop. If one loop hangs, there is none, and the
/// manager ends the process when its patience is over.
package struct Supervision: Sendable {
    /// How often a status is sent. Also how often a sign of life is sent, unless the manager wants it more often.
    private static let usualInterval = Duration.seconds(5)
    /// How often the engines are asked whether all have polled, before they have.
    private static let startInterval = Duration.milliseconds(100)

    private let engines: @Sendable () -> [Engine]
    private let manager: ServiceManager

    /// - Parameter engines: returns the current engines. May be called on any thread.
    package init(of engines: @escaping @Sendable () -> [Engine], for manager: ServiceManager) {
        self.engines = engines
        self.manager = manager
    }

    /// The same for engines that stay.
    package init(of engines: [Engine], for manager: ServiceManager) {
        self.init(of: { engines }, for: manager)
    }

    /// Reports until the task is cancelled.
    package func run() async {
        // Three signs of life within the manager's patience, so that one may be late.
        let interval = min(Self.usualInterval, (manager.watchdog ?? Self.usualInterval) / 3)
        var isReady = false
        while !Task.isCancelled {
            var snapshots: [EngineSnapshot] = []
            for engine in engines() { snapshots.append(await engine.snapshot()) }
            if manager.watchdog != nil { manager.alive() }
            if !isReady, snapshots.allSatisfy({ $0.hasPolled || $0.isHeldUp }) {
                isReady = true
                manager.ready()
            }
            manager.status(Self.status(of: snapshots))
            try? await Task.sleep(for: isReady ? interval : min(interval, Self.startInterval))
        }
    }

    /// The status in one line, for operators.
    static func status(of engines: [EngineSnapshot]) -> String {
        let sum = { (value: (EngineSnapshot) -> Int) in engines.reduce(0) { $0 + value($1) } }
        let work =
            "\(sum(\.inFlight)) pushes in flight, \(sum(\.heldJobs)) jobs held, "
            + "\(sum(\.connections.connections)) connections to APNs"
        var obstacles: [String] = []
        for engine in EngineSnapshot.staying(engines) {
            obstacles += engine.obstacles.filter { !obstacles.contains($0) }
        }
        return obstacles.isEmpty ? work : obstacles.joined(separator: "; ") + ": " + work
    }
}
