import APNs
import Metrics
import PostgresStore
import QueueCore

/// What an engine has counted, and what it does at one moment. A value that can be published.
package struct EngineSnapshot: Sendable {
    var counts = EngineCounts()
    /// The counts of each queue. The key nil has those of all queues without metrics of their own.
    var queues: [QueueName?: QueueCounts] = [:]
    var connections = ConnectionFigures()
    var inFlight = 0
    var heldJobs = 0
    /// The recipients of held jobs that were not sent to.
    var unsentRecipients = 0
    /// The maximum number of leases that the engine may hold now.
    var maximumLeases = 0
    var unreachableQueues = 0
    var isDraining = false
    /// The database on which the engine works.
    var database = ""
    /// The figures of the fleet, if this engine has the duty to read them.
    var fleet: FleetFigures?
    /// The reasons why the engine cannot work; empty if it can.
    package var obstacles: [String] = []

    /// Whether the engine waits because its database keeps it from starting.
    var isHeldUp = false

    /// Whether the engine has polled for work at least once.
    var hasPolled: Bool { counts.statements[TimedStatement.poll.rawValue].count > 0 }

    /// Adds what an engine had counted when it ended, without what it was doing then.
    mutating func keepCounts(of ended: EngineSnapshot) {
        counts.add(ended.counts)
        for (name, queue) in ended.queues { queues[name, default: QueueCounts()].add(queue) }
        var figures = ended.connections
        figures.connections = 0
        figures.inFlight = 0
        figures.freeSlots = 0
        connections.add(figures)
    }

    /// The engines that are not being drained; all of them if all are being drained.
    static func staying(_ engines: [EngineSnapshot]) -> [EngineSnapshot] {
        engines.allSatisfy(\.isDraining) ? engines : engines.filter { !$0.isDraining }
    }

    /// The snapshot of an engine that has not begun.
    static let starting = {
        var snapshot = EngineSnapshot()
        snapshot.obstacles = ["starting: not connected to PostgreSQL yet"]
        return snapshot
    }()
}

extension EngineParts {
    /// The snapshot of this moment.
    var snapshot: EngineSnapshot {
        var snapshot = EngineSnapshot()
        snapshot.counts = context.figures.counts
        snapshot.queues = context.figures.countsOfQueues
        snapshot.connections = gateways.connectionFigures
        snapshot.inFlight = dispatcher.inFlight
        snapshot.heldJobs = jobs.count
        snapshot.unsentRecipients = dispatcher.active.reduce(0) { $0 + $1.unsent }
        snapshot.maximumLeases = settler.maximumLeases
        snapshot.unreachableQueues = queues.unreachable.count
        snapshot.isDraining = isDraining
        snapshot.isHeldUp = isHeldUp
        snapshot.database = database.description
        snapshot.fleet = figuresDuty?.figures
        if isDraining { snapshot.obstacles.append("draining") }
        if isHeldUp {
            snapshot.obstacles.append("\(database.description) cannot be used")
        } else if !context.postgres.isConnected {
            snapshot.obstacles.append("PostgreSQL is out of reach")
        } else if context.postgres.lacksConnection {
            snapshot.obstacles.append("PostgreSQL has no session for fan-out or upkeep")
        }
        if settler.prevention != nil {
            snapshot.obstacles.append("PostgreSQL refuses to store the ends of jobs")
        } else if let obstacle = settler.standstill ?? context.delays.obstacle, context.postgres.isConnected {
            snapshot.obstacles.append(obstacle)
        }
        if !queues.isConnectedOrIdle { snapshot.obstacles.append("there is work, and no connection to APNs") }
        return snapshot
    }
}
