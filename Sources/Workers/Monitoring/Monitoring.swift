import HTTP1
import Metrics
package import Transport

/// Tells of the engines of a process over HTTP: `/metrics` for a server that scrapes, `/healthz` and `/readyz` for what
/// supervises the process.
///
/// It lives on a loop of its own, and asks each engine for a copy of what it has counted. So an engine whose loop hangs
/// keeps no answer waiting for longer than `patience`, and `/healthz` can say so.
package actor Monitoring {
    /// How long an engine may take to answer. A turn of a loop takes some milliseconds.
    static let patience = Duration.seconds(2)

    /// The loop that it lives on.
    package nonisolated let loop: EventLoop

    package nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe loop.asUnownedSerialExecutor()
    }

    private let engines: [Engine]
    private let admission: QueueAdmission
    private let version: String
    private let process = ProcessMetrics()
    private var server: Server?
    /// What each engine said last, and who waits for what it says next.
    private var latest: [EngineSnapshot?]
    private var waiting: [Int: [Waiter<Bool>]] = [:]

    /// - Parameter admission: the one that the engines have.
    package init(of engines: [Engine], admission: QueueAdmission, version: String) {
        self.engines = engines
        self.admission = admission
        self.version = version
        latest = [EngineSnapshot?](repeating: nil, count: engines.count)
        loop = EventLoop(name: "metrics")
    }

    /// Listens from now on. Returns where, with the port that the system chose for 0.
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
            let responding = await ask()
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
        let responding = await ask()
        return WorkerPage(
            engines: latest, responding: responding, admission: admission, version: version, process: process)
    }

    /// Asks all engines for what they have counted, and waits for those that answer in time. Returns how many did.
    private func ask() async -> Int {
        let deadline = loop.now + Self.patience
        let waiters = engines.indices.map { index in
            let waiter = Waiter<Bool>(loop: loop)
            // One that has not answered the last time is not asked once more.
            let isAsked = waiting[index] != nil
            waiting[index, default: []].append(waiter)
            if !isAsked { ask(index) }
            return waiter
        }
        var responding = 0
        for waiter in waiters where await waiter.wait(until: deadline) ?? false { responding += 1 }
        return responding
    }

    private func ask(_ index: Int) {
        let engine = engines[index]
        Task(executorPreference: loop) { await self.take(await engine.snapshot(), of: index) }
    }

    private func take(_ snapshot: EngineSnapshot, of index: Int) {
        latest[index] = snapshot
        for waiter in waiting.removeValue(forKey: index) ?? [] { waiter.resume(true) }
    }
}
