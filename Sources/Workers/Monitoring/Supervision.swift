import APNs
package import Transport

/// Tells the service manager how the engines of a process are: ready after each has polled the database (unless it is
/// one of several, and keeps its engines from starting), alive as long
/// as the loops of all of them turn, and what they do.
///
/// Each sign of life is an answer of every engine, given on its own loop. If one loop hangs, there is none, and the
/// manager ends the process when its patience is over.
package struct Supervision: Sendable {
    /// How often a status is sent, and a sign of life unless the manager wants it more often.
    private static let usualInterval = Duration.seconds(5)
    /// How often it is asked whether all have polled, before that.
    private static let startInterval = Duration.milliseconds(100)

    private let engines: @Sendable () -> [Engine]
    private let manager: ServiceManager

    /// - Parameter engines: those that there are, whenever it is asked. Any thread.
    package init(of engines: @escaping @Sendable () -> [Engine], for manager: ServiceManager) {
        self.engines = engines
        self.manager = manager
    }

    /// The same of engines that stay.
    package init(of engines: [Engine], for manager: ServiceManager) {
        self.init(of: { engines }, for: manager)
    }

    /// Tells until it is cancelled.
    package func run() async {
        // Three signs within the manager's patience: one may be late.
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

    /// One line for people.
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
