import APNs
import Cryptography
import FoundationEssentials
import Glibc
import PostgresStore
import Terminal
import Transport
import Workers

struct WorkCommand: Terminal.Command {
    static let name = "work"
    static let users = CommandUsers.workers
    static let summary =
        "Runs a worker: leases jobs, sends them to APNs and records the outcomes, until it is told to stop."
    static let discussion = """
        Start as many workers as needed, on as many machines as needed; they share the work. SIGTERM, Ctrl-C \
        or the end of its terminal (SIGHUP) drains: the worker waits for pushes in flight, gives the rest back and exits \
        with 0. Another SIGTERM or Ctrl-C, more than a second after the first, ends it at once.

        If PostgreSQL is out of reach when it starts, the worker says so and tries again until it is there. If the \
        server refuses it, or the schema is not the one that it needs, it ends.

        A worker can serve several databases, which share nothing. If one is unavailable, the others are still served. \
        Name the databases in the same order for all workers, because the first one stores the provider tokens of all. \
        The worker reads the file of --databases again every two seconds, and at once on SIGHUP, which does not drain \
        then: it serves databases that were added, and drains those that were removed. If the file has a mistake, the worker logs it and changes \
        nothing.

        If the pattern matches no queue, the worker logs this, and waits until such a queue is created. A pattern that \
        matches no possible name is refused.

        The master key is read from PUSHQ_MASTER_KEY_FILE or PUSHQ_MASTER_KEY.
        """
    static let examples = [
        "work", "work --queues 'acme/*/production'", "work --gateway 127.0.0.1:2197 --ca pushq-simulator/ca.pem",
        "work --metrics 9464 --engines 2", "work --databases /etc/pushq/databases", "work --webhook-allow 10.20.0.0/16",
        "work --binary-gateway 127.0.0.1:2195 --feedback-service 127.0.0.1:2196 --ca pushq-simulator/ca.pem",
    ]

    @Option("Queues to serve: tenant/app/environment, where * matches anything.", "PATTERN")
    var queues: String = "*"
    @Option("Send to this address instead of to Apple: a simulator or a proxy.") var gateway: HostAndPort?
    @Option("The port of Apple's hosts: 443, or 2197 for firewalls that let only that through.") var apnsPort:
        PortNumber?
    @Option("Send broadcasts to this address. By default they go where pushes to devices go.") var broadcastGateway:
        HostAndPort?
    @Option("Send to this address for queues with --gateway binary: a server that speaks Apple's old interface.")
    var binaryGateway: HostAndPort?
    @Option("The address of the binary interface's feedback service.") var feedbackService: HostAndPort?
    @Option("The format of pushes over the binary interface: command 0, 1 or 2.") var binaryCommand: Int = 2
    @Option(
        "How long to wait for an error after a push over the binary interface. If none comes, the push counts as delivered."
    )
    var binaryGrace: Duration = .seconds(2)
    @Option(
        "A PEM file with certificate authorities to trust for these addresses, in addition to the system's.", "FILE")
    var ca: InputFile?
    @Option(
        "An internal network that webhooks of tenants may be in. By default they may only be on the internet.", "CIDR")
    var webhookAllow: [AddressBlock]
    @Option("How long to wait for pushes in flight when told to stop.") var drain: Duration = .seconds(25)
    @Option(
        "How long a job stays leased without renewal. With a shorter time, the jobs of dead workers are rescued sooner."
    )
    var lease: Duration = .seconds(15)
    @Option("Number of engines in this process for each database, each on its own core.") var engines: Int = 1
    @Option(
        "Maximum number of connections to APNs of this process. If more are needed, the least recently used idle ones are closed."
    )
    var connections: Int = 2000
    @Option(
        "Serve /metrics, /healthz and /readyz here: a port of the loopback interface, HOST:PORT, or unix:PATH.")
    var metrics: ListenAddress?
    @Option("Number of queues with metrics of their own; all others are counted together.")
    var metricsQueues: Int = 200
    @Option("The worker's name, for operators; by default the host's name and the process ID.") var name: String?
    var databases = DatabaseList()
    var logging = LogOptions()

    func run(_ console: Console) async throws {
        guard (1...64).contains(engines) else { throw UsageError("--engines \(engines) is not between 1 and 64") }
        guard connections > 0 else { throw UsageError("--connections \(connections) is less than one") }
        guard (0...10_000).contains(metricsQueues) else {
            throw UsageError("--metrics-queues \(metricsQueues) is not between 0 and 10000")
        }
        guard lease >= .seconds(1) else { throw UsageError("--lease \(lease.shown) is less than a second") }
        guard lease <= PostgresConnection.longestLease else {
            throw UsageError("--lease \(lease.shown) is more than \(PostgresConnection.longestLease.shown)")
        }
        if let problem = QueuePattern.problem(in: queues) {
            throw UsageError("--queues \(Messages.withoutSecrets(queues)) \(problem)")
        }
        let addresses = try databases.addresses()
        if let warning = databases.warning { console.warn(warning) }
        let settings = try settings(databases: addresses.count)
        let log = logging.log(on: console)
        StandardStream.outliveReaders()
        if let warning = addresses.lazy.compactMap(\.warning).first { log.note(Self.exposed(warning)) }
        if let warning = addresses.warningOfUnverifiedServers {
            log.note(LogEntry(.warning, "server_unverified", warning))
        }
        let writing = Task { await log.run() }
        let result: Result<Void, any Error>
        do {
            result = .success(try await work(settings, on: addresses, log, console))
        } catch {
            result = .failure(error)
        }
        if case .failure(let error) = result {
            log.note(LogEntry(.error, "failed", "\(error)", isLast: true))
        }
        writing.cancel()
        await writing.value
        if case .failure = result { throw Unsuccessful() }
    }

    private func work(
        _ settings: EngineSettings, on databases: [DatabaseAddress], _ log: Log, _ console: Console
    ) async throws {
        let masterKeys = try MasterKeySetting().keys { log.note(Self.exposed($0)) }
        let admission = QueueAdmission(limit: metricsQueues)
        let group = EngineGroup()
        let named = databases.count > 1 || self.databases.mayChange
        let served = ServedDatabases(group, enginesForEach: engines) { place, connections in
            var settings = settings
            settings.maximumConnections = connections
            let name = named ? place.database.description : nil
            return Engine(
                settings: settings, database: place.database, tokenKeeper: place.tokenKeeper, masterKeys: masterKeys,
                admission: admission
            ) { event in
                if log.says(event.level) { log.note(event.entry(of: name)) }
            }
        } connections: { count in
            connections(for: count)
        }
        await served.serve(databases)
        let monitoring = Monitoring(of: { group.engines }, admission: admission, version: Version.current)
        if let metrics {
            let place = try await monitoring.start(at: metrics)
            log.note(
                LogEntry(.info, "metrics_served", "metrics are served at \(place)", [("address", .string("\(place)"))]))
        }
        let manager = ServiceManager(ThisProcess.environment)
        let telling = manager.map { manager in Task { await Supervision(of: { group.engines }, for: manager).run() } }
        let stopping = Task { [mayChange = self.databases.mayChange] in
            // If the databases are listed in a file, SIGHUP makes the worker read it again.
            await Self.stop(group, on: mayChange ? [SIGTERM, SIGINT] : Signals.ending, of: manager, log)
        }
        let watching = self.databases.mayChange ? await served.follow(self.databases, log) : []
        let comparing = Task { await served.tellOfDoubledTenants(log) }
        defer {
            comparing.cancel()
            telling?.cancel()
            stopping.cancel()
            for task in watching { task.cancel() }
        }
        let result: Result<Void, any Error>
        do {
            try await group.run(
                onFaultOfLeaving: { error in
                    log.note(
                        LogEntry(
                            .error, "drain_failed", "a database that was removed was not drained to the end: \(error)",
                            [("reason", .string("\(error)"))]))
                },
                successor: { engine, error in
                    settings.waits == .always ? await served.successor(of: engine, after: error) : nil
                })
            result = .success(())
        } catch {
            result = .failure(error)
        }
        await monitoring.stop()
        try result.get()
    }

    private static func exposed(_ warning: String) -> LogEntry { LogEntry(.warning, "secret_exposed", warning) }

    private func settings(databases: Int) throws -> EngineSettings {
        guard ca == nil || gateway != nil || broadcastGateway != nil || binaryGateway != nil || feedbackService != nil
        else {
            throw UsageError("--ca needs a --gateway")
        }
        if let gateway, Endpoint.isApples(gateway.host) {
            throw UsageError(
                "--gateway \(gateway.shown) would send the queues of both environments to one of Apple's hosts; leave "
                    + "it out, and choose the port with --apns-port")
        }
        if let apnsPort {
            guard gateway == nil else {
                throw UsageError("--apns-port is for Apple's hosts: --gateway has a port already")
            }
            guard Endpoint.applePorts.contains(apnsPort.number) else {
                throw UsageError("--apns-port \(apnsPort.shown) is not 443 or 2197")
            }
        }
        guard binaryGrace >= .milliseconds(100) else {
            throw UsageError("--binary-grace \(binaryGrace.shown) is less than 100ms")
        }
        guard let command = UInt8(exactly: binaryCommand).flatMap(BinaryCommand.init) else {
            throw UsageError("--binary-command \(binaryCommand) is not 0, 1 or 2")
        }
        var settings = EngineSettings()
        settings.binary.command = command
        settings.binary.grace = binaryGrace
        settings.queues = queues
        settings.webhooks.named = webhookAllow
        settings.webhooksAtOnce = max(32, min(settings.webhooksAtOnce, OpenFiles.raiseLimit() / 4 / max(1, databases)))
        settings.drain = drain
        settings.lease = lease
        settings.publishesMetrics = metrics != nil
        settings.waits = databases > 1 || self.databases.mayChange ? .always : .untilInReach
        settings.version = Version.current
        settings.name = name ?? "\(ThisProcess.hostName):\(ThisProcess.number)"
        let authorities = try ca?.authorities()
        let endpoint = { (place: HostAndPort) in
            Endpoint(host: place.host, port: place.port, authorities: authorities)
        }
        settings.endpoint = gateway.map(endpoint)
        settings.applePort = apnsPort?.number ?? settings.applePort
        settings.broadcastEndpoint = broadcastGateway.map(endpoint)
        settings.binaryEndpoint = binaryGateway.map(endpoint)
        settings.feedbackEndpoint = feedbackService.map(endpoint)
        return settings
    }

    /// The maximum number of connections to APNs for each of this many engines.
    private func connections(for engines: Int) -> Int {
        // A quarter is for webhooks. The other descriptors are for PostgreSQL, the event loops and the log.
        let limit = OpenFiles.raiseLimit()
        let allowed = min(connections, limit - limit / 4 - 20 * (engines + 1))
        return max(1, allowed / max(1, engines))
    }

    /// A signal this soon after the first one expresses the same wish. A supervisor may signal both the process and its
    /// group, as timeout(1) does. A terminal sends Ctrl-C to all processes that it runs, while `make` or a shell passes
    /// it on.
    private static let sameWish = Duration.seconds(1)

    /// The first signal drains, a later one ends the process. When a terminal is closed, SIGHUP may arrive twice: from
    /// the kernel and from the shell.
    private static func stop(
        _ group: EngineGroup, on signals: [Int32], of manager: ServiceManager?, _ log: Log
    ) async {
        var beginning: ContinuousClock.Instant?
        for await signal in Signals.stream(signals) {
            if let beginning {
                guard signal != SIGHUP, beginning.duration(to: .now) > sameWish else { continue }
                log.note(
                    LogEntry(.warning, "ended_at_once", "ended at once: what was in flight is uncertain"))
                log.end()
                // Skips what `exit` does at the end, which would take away what the engines are still using.
                _exit(ExitCode.failed.rawValue)
            }
            beginning = .now
            manager?.stopping()
            // Not awaited: if the event loop of an engine hangs, the next signal is to end the process.
            Task { await group.drain() }
        }
    }
}
