import Glibc
package import PostgresStore
import Terminal
package import Transport

/// Shows a ``TopDrawing`` on a terminal until the operator quits. It queries the database again and again, and passes
/// on keys and signals. It handles one event at a time.
///
/// It belongs to an event loop, and to one task on it.
package final class TopLoop {
    /// What to query, and how often.
    package struct Settings: Sendable {
        package var tenant: String?
        package var withWorkers: Bool
        package var every: Duration
        /// Whether the terminal may show colours.
        package var inColor: Bool

        package init(tenant: String?, withWorkers: Bool, every: Duration, inColor: Bool) {
            self.tenant = tenant
            self.withWorkers = withWorkers
            self.every = every
            self.inColor = inColor
        }
    }

    private enum Event: Sendable {
        case keys([UInt8])
        case signal(Int32)
        /// It is time for the next query.
        case tick
        case answer(Result<TopFigures, Refused>)
        case changed(String)
        case terminalGone
    }

    /// Why a query failed, in one line.
    private struct Refused: Error {
        let reason: String
    }

    private let store: ReconnectingConnection
    private let loop: EventLoop
    private let settings: Settings
    private let screen: TerminalScreen
    private let events: AsyncStream<Event>
    private let report: AsyncStream<Event>.Continuation
    private var state: TopState
    private var figures: TopFigures
    private var timer: Timer?
    private var isAsking = false
    /// A key asked for other figures while a query was running.
    private var isAskedAgain = false

    /// - Parameter figures: the first figures. The command queries them before the screen opens, so that an error at
    ///   the beginning is an error of the command.
    package init(
        _ store: ReconnectingConnection, on loop: EventLoop, _ settings: Settings, state: TopState, figures: TopFigures
    ) {
        self.store = store
        self.loop = loop
        self.settings = settings
        self.state = state
        self.figures = figures
        screen = TerminalScreen(on: loop)
        (events, report) = AsyncStream.makeStream()
    }

    /// Shows the screen until the operator quits, or the terminal is gone.
    package func run() async {
        // Runs before the screen opens, so that no signal ends the process before the terminal is restored.
        let numbers = Signals.stream([SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT])
        let signals = Task { [report] in
            for await number in numbers { report.yield(.signal(number)) }
        }
        screen.open()
        defer {
            signals.cancel()
            screen.unwatchKeys()
            screen.close()
            report.finish()
        }
        screen.watchKeys { [report] in report.yield($0.map { .keys($0) } ?? .terminalGone) }
        askLater()
        guard draw() else { return }
        for await event in events {
            guard handle(event), draw() else { return }
        }
    }

    /// Returns whether to continue.
    private func handle(_ event: Event) -> Bool {
        switch event {
        case .terminalGone: return false
        case .signal(let number): return handle(signal: number)
        case .tick: ask()
        case .answer(let answer):
            isAsking = false
            switch answer {
            case .success(let new): (figures, state.problem) = (new, nil)
            case .failure(let refused): state.problem = refused.reason
            }
            if isAskedAgain { ask() } else { askLater() }
        case .changed(let note):
            state.note = note
            ask()
        case .keys(let bytes):
            for key in Key.keys(in: bytes) {
                switch state.press(key, among: figures.loads.queues, page: drawing.page) {
                case .none: break
                case .quit: return false
                case .ask: ask()
                case .change(let change): carryOut(change)
                }
            }
        }
        return true
    }

    private func handle(signal number: Int32) -> Bool {
        switch number {
        case SIGTSTP: screen.stopProcess()
        // The process may have been stopped by SIGSTOP, which cannot be caught.
        case SIGCONT: screen.applyModes()
        case SIGWINCH: break
        default: return false
        }
        return true
    }

    // MARK: The screen

    private var drawing: TopDrawing { TopDrawing(state, figures, size: screen.size, every: settings.every) }

    /// Returns whether the terminal accepted the output.
    private func draw() -> Bool {
        let columns = max(1, screen.size.columns - 1)
        let lines = drawing.lines.map { $0.encoded(columns: columns, inColor: settings.inColor) }
        return (try? screen.draw(lines)) != nil
    }

    // MARK: The database

    private func askLater() {
        timer?.cancel()
        timer = loop.schedule(after: settings.every) { [report] in report.yield(.tick) }
    }

    /// Queries the database. If a query is running, it queries again afterwards.
    private func ask() {
        isAskedAgain = isAsking
        guard !isAsking else { return }
        isAsking = true
        let (tenant, matching, withWorkers) = (settings.tenant, state.matching, settings.withWorkers)
        loop.startTask { [self] in
            report.yield(
                .answer(
                    await attempt {
                        try await $0.topFigures(of: tenant, matching: matching, withWorkers: withWorkers)
                    }))
        }
    }

    private func carryOut(_ change: TopState.Change) {
        loop.startTask { [self] in
            let done = await attempt { store in
                switch change {
                case .pause(let queue):
                    try await store.pauseQueue(queue, reason: "by hand")
                    return "paused \(queue)"
                case .resume(let queue):
                    try await store.resumeQueue(queue)
                    return "resumed \(queue)"
                }
            }
            switch done {
            case .success(let note): report.yield(.changed(note))
            case .failure(let refused): report.yield(.changed("nothing was changed: \(refused.reason)"))
            }
        }
    }

    private func attempt<Success>(
        _ body: (PostgresConnection) async throws -> Success
    ) async -> Result<Success, Refused> {
        do {
            return .success(try await body(store.current(within: .seconds(5))))
        } catch {
            return .failure(Refused(reason: "\(error)"))
        }
    }
}
