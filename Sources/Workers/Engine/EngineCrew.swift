import Transport

/// The engines of one process. They share nothing, but end together: if one of them cannot start or fails, the others
/// are drained, so that the process ends with its error instead of running with less than it was asked for.
///
/// Engines may join and leave while it runs.
package final class EngineCrew: Sendable {
    /// How long the loop of an engine that has left goes on: somebody may just have asked the engine for its figures,
    /// and what is asked on a loop that has ended is never answered.
    private static let grace = Duration.seconds(60)

    private struct State {
        var engines: [Engine]
        /// Those among them that were told to leave.
        var leaving: Set<Int64> = []
        /// The loops of those that have left, and when.
        var left: [(loop: EventLoop, at: ContinuousClock.Instant)] = []
        var failure: (any Error)?
        var isDraining = false
    }

    private let state: Locked<State>
    private let arrivals: AsyncStream<Engine>
    private let arrival: AsyncStream<Engine>.Continuation

    package init(_ engines: [Engine] = []) {
        state = Locked(State(engines: engines))
        (arrivals, arrival) = AsyncStream.makeStream()
        for engine in engines { arrival.yield(engine) }
    }

    /// Those that have not ended; one that leaves is among them until it has.
    package var engines: [Engine] { state.withLock { $0.engines } }

    /// Runs all engines until they are drained. Throws the first error of any of them, when all others have ended.
    /// - Parameter fault: called with the error of an engine that was told to leave, and failed: the others go on.
    package func run(onFaultOfLeaving fault: @escaping @Sendable (any Error) -> Void = { _ in }) async throws {
        await withDiscardingTaskGroup { group in
            for await engine in arrivals {
                group.addTask { await self.run(engine, fault) }
            }
        }
        let (loops, failure) = state.withLock { ($0.left.map(\.loop), $0.failure) }
        for loop in loops { loop.shutDown() }
        for loop in loops { loop.shutDownAndWait() }
        if let failure { throw failure }
    }

    /// Has one more run. If all are being drained, it does not begin.
    package func add(_ engine: Engine) {
        let isLate = state.withLock { state in
            if !state.isDraining { state.engines.append(engine) }
            return state.isDraining
        }
        guard !isLate else { return engine.loop.shutDown() }
        arrival.yield(engine)
    }

    /// Drains one, and lets the others go on.
    package func remove(_ engine: Engine) async {
        state.withLock { state in _ = state.leaving.insert(engine.workerID) }
        await engine.drain()
        for loop in loopsToEnd() { loop.shutDown() }
    }

    /// Drains all engines, see ``Engine/drain()``.
    package func drain() async {
        let engines = state.withLock { state in
            state.isDraining = true
            return state.engines
        }
        arrival.finish()
        for engine in engines { await engine.drain() }
    }

    private func run(_ engine: Engine, _ fault: @Sendable (any Error) -> Void) async {
        var failure: (any Error)?
        do { try await engine.run() } catch { failure = error }
        let isLeaving = state.withLock { state in
            state.engines.removeAll { $0 === engine }
            state.left.append((engine.loop, .now))
            let isLeaving = state.leaving.remove(engine.workerID) != nil
            if !isLeaving, state.failure == nil { state.failure = failure }
            return isLeaving
        }
        guard let failure else { return }
        if isLeaving { fault(failure) } else { await drain() }
    }

    private func loopsToEnd() -> [EventLoop] {
        state.withLock { state in
            let time = ContinuousClock.now - Self.grace
            let due = state.left.filter { $0.at < time }
            state.left.removeAll { $0.at < time }
            return due.map(\.loop)
        }
    }
}
