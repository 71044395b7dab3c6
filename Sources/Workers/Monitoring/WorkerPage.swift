import APNs
import FoundationEssentials
import Metrics
import PostgresStore
import QueueCore

/// Combines what the engines of a process have counted into metrics.
struct WorkerPage {
    /// The last snapshots of the engines; nil for an engine that has not answered yet.
    let engines: [EngineSnapshot?]
    /// The counts of engines that have ended.
    let past: EngineSnapshot
    /// The number of engines that have answered in time.
    let responding: Int
    let admission: QueueAdmission
    let version: String
    let process: ProcessMetrics

    private typealias Catalog = MetricCatalog

    /// Why the worker is not ready; empty if it is.
    var obstacles: [String] {
        var obstacles: [String] = []
        if responding < engines.count {
            obstacles.append("\(engines.count - responding) of \(engines.count) engines do not answer")
        }
        for engine in EngineSnapshot.staying(engines.map { $0 ?? .starting }) {
            obstacles += engine.obstacles.filter { !obstacles.contains($0) }
        }
        return obstacles
    }

    /// All metrics with their values.
    func families() -> [MetricFamily] {
        let known = engines.compactMap(\.self)
        return ofWorker(known) + ofQueues(known) + ofJobs(known) + ofConnections(known) + ofFleet(known)
            + ofMetrics() + process.families()
    }

    // MARK: The worker

    private func ofWorker(_ known: [EngineSnapshot]) -> [MetricFamily] {
        var build = MetricFamily(Catalog.build)
        build.add(1, [version])
        var lag = MetricFamily(Catalog.loopLag)
        lag.add(counts(known).loopLag)
        return [
            build, MetricFamily(Catalog.ready, obstacles.isEmpty ? 1 : 0),
            MetricFamily(Catalog.draining, !known.isEmpty && known.allSatisfy(\.isDraining) ? 1 : 0),
            MetricFamily(Catalog.engines, engines.count), MetricFamily(Catalog.enginesResponding, responding),
            MetricFamily(Catalog.enginesReady, min(responding, known.count { $0.obstacles.isEmpty })),
            MetricFamily(Catalog.inFlight, sum(known, \.inFlight)),
            MetricFamily(Catalog.jobsHeld, sum(known, \.heldJobs)),
            MetricFamily(Catalog.recipientsHeld, sum(known, \.unsentRecipients)),
            MetricFamily(Catalog.leaseLimit, sum(known, \.maximumLeases)),
            MetricFamily(Catalog.queuesUnreachable, unreachableQueues(known)), lag,
        ]
    }

    /// The engines of one database send for the same queues, each over its own connections.
    private func unreachableQueues(_ known: [EngineSnapshot]) -> Int {
        Dictionary(known.map { ($0.database, $0.unreachableQueues) }, uniquingKeysWith: max).values.reduce(0, +)
    }

    private func ofMetrics() -> [MetricFamily] {
        [
            MetricFamily(Catalog.queueLimit, admission.limit),
            MetricFamily(Catalog.queuesOverLimit, admission.refusedCount),
        ]
    }

    // MARK: Queues

    private func ofQueues(_ known: [EngineSnapshot]) -> [MetricFamily] {
        var merged: [QueueName?: QueueCounts] = [:]
        for (name, counts) in (known + [past]).flatMap(\.queues) { merged[name, default: QueueCounts()].add(counts) }
        let queues = merged.sorted { ($0.key?.description ?? "~") < ($1.key?.description ?? "~") }
        var pushes = MetricFamily(Catalog.pushes)
        var answers = MetricFamily(Catalog.answers)
        var latency = MetricFamily(Catalog.latency)
        var age = MetricFamily(Catalog.age)
        var outcomes = MetricFamily(Catalog.outcomes)
        var lapsed = MetricFamily(Catalog.permitsLapsed)
        for (name, counts) in queues {
            let labels = Self.labels(of: name)
            for lane in Lane.shared {
                let index = Int(lane.rawValue)
                if counts.sent[index] > 0 {
                    pushes.add(counts.sent[index], labels + ["\(lane)"])
                    age.add(counts.age[index], labels + ["\(lane)"])
                }
                for (words, count) in Self.named(counts.outcomes[index]) {
                    outcomes.add(count, labels + ["\(lane)"] + words)
                }
            }
            // Zeros are written, too. Otherwise a rate would miss the first answer.
            answers.add(counts.answers.accepted, labels + ["accepted", ""])
            answers.add(counts.answers.unanswered, labels + ["unanswered", ""])
            answers.add(counts.answers.untouched, labels + ["untouched", ""])
            let refused = counts.answers.refused
            for code in Set(refused.indices.filter { refused[$0] > 0 } + Self.alarmingRefusals).sorted() {
                let count = refused.indices.contains(code) ? refused[code] : 0
                answers.add(count, labels + ["refused", Reason(code: UInt8(code)).text])
            }
            latency.add(counts.answers.latency, labels)
            lapsed.add(counts.permitsLapsed, labels)
        }
        return [pushes, answers, latency, age, outcomes, lapsed]
    }

    /// Outcomes by their labels `outcome` and `reason`. Several bytes that only newer versions know share the same
    /// labels.
    private static func named(_ bytes: [Int]) -> [(words: [String], count: Int)] {
        var named: [(words: [String], count: Int)] = []
        for (byte, count) in bytes.enumerated() where count > 0 {
            let outcome = Outcome(rawValue: UInt8(byte))
            let words = [outcome.kind?.rawValue ?? "other", outcome.reasonText ?? ""]
            if let place = named.firstIndex(where: { $0.words == words }) {
                named[place].count += count
            } else {
                named.append((words, count))
            }
        }
        return named
    }

    /// The codes of refusals that are written even at zero. Otherwise a rate of bad tokens would miss the first ones.
    private static let alarmingRefusals = [Reason.badDeviceToken, .deviceTokenNotForTopic].map { Int($0.code) }

    private static func labels(of queue: QueueName?) -> [String] {
        guard let queue else { return [Catalog.others, Catalog.others, Catalog.others] }
        return [queue.tenant, queue.app, queue.environment.rawValue]
    }

    // MARK: Jobs and PostgreSQL

    private func ofJobs(_ known: [EngineSnapshot]) -> [MetricFamily] {
        let counts = counts(known)
        var statements = MetricFamily(Catalog.statements)
        for statement in TimedStatement.allCases {
            statements.add(counts.statements[statement.rawValue], ["\(statement)"])
        }
        var retries = MetricFamily(Catalog.storeRetries)
        retries.add(counts.flushRetries, ["flush"])
        retries.add(counts.endRetries, ["end"])
        return [
            MetricFamily(Catalog.jobsClaimed, counts.jobsClaimed), MetricFamily(Catalog.jobsEnded, counts.jobsEnded),
            MetricFamily(Catalog.jobsGivenBack, counts.jobsGivenBack),
            MetricFamily(Catalog.jobsRescued, counts.jobsRescued),
            MetricFamily(Catalog.jobsQuarantined, counts.jobsQuarantined),
            MetricFamily(Catalog.jobsSetAside, counts.jobsSetAside),
            MetricFamily(Catalog.leasesLost, counts.leasesLost), MetricFamily(Catalog.leasesFound, counts.leasesFound),
            statements, retries, MetricFamily(Catalog.storeLosses, counts.storeLosses),
            MetricFamily(Catalog.oldPrimaries, counts.oldPrimaries),
            MetricFamily(Catalog.outages, counts.outages),
        ]
    }

    private func counts(_ known: [EngineSnapshot]) -> EngineCounts {
        (known + [past]).reduce(into: EngineCounts()) { $0.add($1.counts) }
    }

    private func sum(_ known: [EngineSnapshot], _ value: (EngineSnapshot) -> Int) -> Int {
        known.reduce(0) { $0 + value($1) }
    }

    // MARK: Connections

    private func ofConnections(_ known: [EngineSnapshot]) -> [MetricFamily] {
        let figures = (known + [past]).reduce(into: ConnectionFigures()) { $0.add($1.connections) }
        var streams = MetricFamily(Catalog.streams)
        streams.add(figures.inFlight, ["used"])
        streams.add(figures.freeSlots, ["free"])
        var ended = MetricFamily(Catalog.connectionsEnded)
        for cause in ConnectionFigures.Cause.allCases { ended.add(figures.ended[cause] ?? 0, [cause.rawValue]) }
        var handshakes = MetricFamily(Catalog.handshakes)
        handshakes.add(figures.fullHandshakes, ["full"])
        handshakes.add(figures.resumedHandshakes, ["resumed"])
        var goAways = MetricFamily(Catalog.goAways)
        for (code, count) in figures.goAways.sorted(by: { $0.key < $1.key }) { goAways.add(count, [code]) }
        return [
            MetricFamily(Catalog.connections, figures.connections), streams,
            MetricFamily(Catalog.connectionsOpened, figures.opened), ended,
            MetricFamily(Catalog.connectionsFailed, figures.failedAttempts), handshakes, goAways,
        ]
    }

    // MARK: The fleet

    private func ofFleet(_ known: [EngineSnapshot]) -> [MetricFamily] {
        // One engine has the figures of each database, or two for a moment, while the duty changes hands.
        let ofDatabases = Dictionary(known.map { ($0.database, $0.fleet) }) { $0 ?? $1 }.values.compactMap(\.self)
        guard !ofDatabases.isEmpty else { return [] }
        let fleet = ofDatabases.reduce(into: FleetFigures()) { $0.add($1) }
        var jobs = MetricFamily(Catalog.fleetJobs)
        var recipients = MetricFamily(Catalog.fleetRecipients)
        var oldest = MetricFamily(Catalog.fleetOldest)
        for backlog in fleet.backlogs {
            let labels = Self.labels(of: backlog.queue) + ["\(backlog.lane)"]
            jobs.add(backlog.jobs, labels)
            recipients.add(backlog.recipients, labels)
            oldest.add(backlog.oldest / .seconds(1), labels)
        }
        var paused = MetricFamily(Catalog.fleetPaused)
        for queue in fleet.pausedQueues { paused.add(1, Self.labels(of: queue)) }
        var workers = MetricFamily(Catalog.fleetWorkers)
        workers.add(fleet.workersWorking, ["working"])
        workers.add(fleet.workersDraining, ["draining"])
        var certificates = MetricFamily(Catalog.fleetCertificates)
        for end in fleet.certificates {
            certificates.add(end.notAfter.timeIntervalSince1970.rounded(), [end.tenant, end.name])
        }
        return [
            jobs, recipients, oldest, MetricFamily(Catalog.fleetPartial, fleet.isPartial ? 1 : 0), paused, workers,
            MetricFamily(Catalog.fleetSetAside, fleet.jobsSetAside), certificates,
        ]
    }
}
