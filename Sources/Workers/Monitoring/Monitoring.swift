import HTTP1
import Metrics
package import Transport

/// Publishes the state of a process's engines over HTTP: `/metrics` for a server that scrapes, `/healthz` and `/readyz`
/// for a supervisor of the process.
///
/// It runs on a loop of its own, and asks each engine for a copy of what it has counted. So an engine whose loop hangs
/// delays an answer by no more than `patience`, and `/healthz` can report it.
package actor Monitoring {
    /// How long an engine may take to answer. A turn of a loop takes some milliseconds.
    package static let usualPatience = Duration.seconds(2)

    /// The event loop on which it runs.
    package nonisolated let loop: EventLoop

    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe loop.asUnownedSerialExecutor()
    }

    private let engines: @Sendable () -> [Engine]
    private let admission: QueueAdmission
    private let version: String
    private let patience: Duration
    private let process = ProcessMetrics()
    private var server: Server?
    /// The engines that were asked and not forgotten yet, by worker ID.
    private var known: [Int64: Engine] = [:]
    /// The last snapshot of each engine, and the requests that wait for its next one, by worker ID.
    private var latest: [Int64: EngineSnapshot] = [:]
    private var waiting: [Int64: [Waiter<Bool>]] = [:]
    /// The counts of engines that are gone. A sum must not fall because an engine has left.
    private var past = EngineSnapshot()

    /// - Parameters:
    ///   - engines: returns the current engines. May be called on any thread.
    ///   - admission: the object that the engines share.
    ///   - patience: how long an engine may take to answer.
    package init(
        of engines: @escaping @Sendable () -> [Engine], admission: QueueAdmission, version: String,
        patience: Duration = usualPatience
    ) {
        self.engines = engines
        self.admission = admission
        self.version = version
        self.patience = patience
        loop = EventLoop(name: "metrics")
    }

    /// The same for engines that stay.
    package init(
        of engines: [Engine], admission: QueueAdmission, version: String, patience: Duration = usualPatience
    ) {
        self.init(of: { engines }, admission: admission, version: version, patience: patience)
    }

    /// Begins to listen. Returns the address, with the port that the system chose for 0.
    @discardableResult
    package func start(at address: ListenAddress) throws(TransportError) -> ListenAddress {
        let server = try Server(at: address, loop: loop) { [self] request, reply in
            loop.startTask { reply(await self.answer(request.head)) }
        }
        self.server = server
        return server.address ?? address
    }

    /// Closes all connections, and ends the loop.
    package func stop() {
        server?.close()
        server = nil
        loop.shutDown()
    }

    // MARK: Answers

    private func answer(_ request: RequestHead) async -> Response {
        switch request.path {
        case "/metrics":
            let format = ExpositionFormat.preferred(by: request.values(of: "accept"))
            return Response(
                contentType: format.contentType, body: format.page(of: await page().families()))
        case "/healthz":
            let engines = engines()
            let responding = await ask(engines)
            await forgetEnded()
            guard responding == engines.count else {
                return Response(
                    status: 503, text: "\(engines.count - responding) of \(engines.count) engines do not answer\n")
            }
            return Response(text: "ok\n")
        case "/readyz":
            let obstacles = await page().obstacles
            guard obstacles.isEmpty else {
                return Response(status: 503, text: obstacles.joined(separator: "\n") + "\n")
            }
            return Response(text: "ok\n")
        default: return Response(status: 404, text: "known are /metrics, /healthz and /readyz\n")
        }
    }

    private func page() async -> WorkerPage {
        let engines = engines()
        let responding = await ask(engines)
        await forgetEnded()
        return WorkerPage(
            engines: engines.map { latest[$0.workerID] }, past: past, responding: responding, admission: admission,
            version: version, process: process)
    }

    /// Asks all engines for what they have counted, and waits for those that answer in time. Returns their number.
    private func ask(_ engines: [Engine]) async -> Int {
        let deadline = loop.now + patience
        let waiters = engines.map { engine in
            let waiter = Waiter<Bool>(loop: loop)
            known[engine.workerID] = engine
            // An engine that has not answered the last question is not asked again.
            let isAsked = waiting[engine.workerID] != nil
            waiting[engine.workerID, default: []].append(waiter)
            if !isAsked { ask(engine) }
            return waiter
        }
        var responding = 0
        for waiter in waiters where await waiter.wait(until: deadline) ?? false { responding += 1 }
        return responding
    }

    private func ask(_ engine: Engine) {
        Task(executorPreference: loop) { await self.take(await engine.snapshot(), of: engine.workerID) }
    }

    private func take(_ snapshot: EngineSnapshot, of engine: Int64) {
        // The counts of an engine that has ended may be among the past ones already.
        if known[engine] != nil { latest[engine] = snapshot }
        for waiter in waiting.removeValue(forKey: engine) ?? [] { waiter.resume(true) }
    }

    /// Keeps the counts of engines that have ended. They are asked once more for what they have counted since the last
    /// request: their loops turn for a while after the end (``EngineGroup``).
    private func forgetEnded() async {
        let present = Set(engines().map(\.workerID))
        let ended = known.filter { !present.contains($0.key) }
        guard !ended.isEmpty else { return }
        _ = await ask(Array(ended.values))
        // Another request may have forgotten some of them meanwhile.
        for engine in ended.keys where known.removeValue(forKey: engine) != nil {
            if let snapshot = latest.removeValue(forKey: engine) { past.keepCounts(of: snapshot) }
            waiting[engine] = nil
        }
    }
}
