import APNs
import Metrics
import PostgresStore
import QueueCore

/// What an engine has counted, and what it does at one moment. A value, for whoever publishes it.
package struct EngineSnapshot: Sendable {
    var counts = EngineCounts()
    /// By queue; those of queues without metrics of their own are nil's.
    var queues: [QueueName?: QueueCounts] = [:]
    var connections = ConnectionFigures()
    var inFlight = 0
    var heldJobs = 0
    /// Recipients of held jobs that were not sent to.
    var heldRecipients = 0
    /// The most leases that it may hold now.
    var maximumLeases = 0
    var unreachableQueues = 0
    var isDraining = false
    /// The database that it works on.
    var database = ""
    /// The figures of the fleet, if this engine has the duty to ask for them.
    var fleet: FleetFigures?
    /// Why it does not do what it is there for; empty if it does.
    package var obstacles: [String] = []

    /// Whether its database keeps it from starting, and it waits.
    var isHeldUp = false

    /// Whether it has found out what there is to do at least once.
    var hasPolled: Bool { counts.statements[TimedStatement.poll.rawValue].count > 0 }

    /// Adds what an engine had counted when it ended, and nothing of what it did then.
    mutating func keepCounts(of ended: EngineSnapshot) {
        counts.add(ended.counts)
        for (name, queue) in ended.queues { queues[name, default: QueueCounts()].add(queue) }
        var figures = ended.connections
        figures.connections = 0
        figures.inFlight = 0
        figures.freeSlots = 0
        connections.add(figures)
    }

    /// Those that are not about to leave the others; all of them, if all are being drained.
    static func staying(_ engines: [EngineSnapshot]) -> [EngineSnapshot] {
        engines.allSatisfy(\.isDraining) ? engines : engines.filter { !$0.isDraining }
    }

    /// One that has not begun.
    static let starting = {
        var snapshot = EngineSnapshot()
        snapshot.obstacles = ["starting: not connected to PostgreSQL yet"]
        return snapshot
    }()
}

extension EngineParts {
    /// What there is now.
    var snapshot: EngineSnapshot {
        var snapshot = EngineSnapshot()
        snapshot.counts = context.figures.counts
        snapshot.queues = context.figures.countsOfQueues
        snapshot.connections = gateways.connectionFigures
        snapshot.inFlight = dispatcher.inFlight
        snapshot.heldJobs = jobs.count
        snapshot.heldRecipients = dispatcher.active.reduce(0) { $0 + $1.unsent }
        snapshot.maximumLeases = settler.maximumLeases
        snapshot.unreachableQueues = queues.unreachable.count
        snapshot.isDraining = isDraining
        snapshot.isHeldUp = isHeldUp
        snapshot.database = database.description
        snapshot.fleet = figuresDuty?.figures
        if isDraining { snapshot.obstacles.append("draining") }
        if isHeldUp {
            snapshot.obstacles.append("\(database.description) cannot be used")
        } else if !context.stores.isConnected {
            snapshot.obstacles.append("PostgreSQL is out of reach")
        } else if context.stores.lacksConnection {
            snapshot.obstacles.append("PostgreSQL has no session for fan-out or upkeep")
        }
        if !queues.isConnectedOrIdle { snapshot.obstacles.append("there is work, and no connection to APNs") }
        return snapshot
    }
}
