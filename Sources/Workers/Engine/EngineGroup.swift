import Transport

/// The engines of one process. They share nothing, but end together: if an engine cannot start or fails, and no other
/// takes its place, the others are drained. So the process ends with the error, instead of running with less than it
/// was asked for.
///
/// Engines may join and leave while the group runs.
package final class EngineGroup: Sendable {
    /// How long the loop of an engine that has left continues. A caller may just have asked the engine for its figures,
    /// and a question to a loop that has ended is never answered.
    private static let grace = Duration.seconds(60)

    private struct State {
        var engines: [Engine]
        /// The engines among them that were told to leave.
        var leaving: Set<Int64> = []
        /// The loops of engines that have left, and when they left.
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

    /// The engines that have not ended, including those that are leaving.
    package var engines: [Engine] { state.withLock { $0.engines } }

    /// Runs all engines until they are drained. Throws the first error of an engine, when all others have ended.
    /// - Parameters:
    ///   - fault: called with the error of an engine that failed after it was told to leave. The others go on.
    ///   - successor: called with any other engine that failed while none was told to drain, and with its error.
    ///     Returns the engine that takes its place, so that the others go on; nil if none does.
    package func run(
        onFaultOfLeaving fault: @escaping @Sendable (any Error) -> Void = { _ in },
        successor: @escaping @Sendable (Engine, any Error) async -> Engine? = { _, _ in nil }
    ) async throws {
        await withDiscardingTaskGroup { group in
            for await engine in arrivals {
                group.addTask { await self.run(engine, fault, successor) }
            }
        }
        let (loops, failure) = state.withLock { ($0.left.map(\.loop), $0.failure) }
        for loop in loops { loop.shutDown() }
        for loop in loops { loop.shutDownAndWait() }
        if let failure { throw failure }
    }

    /// Adds an engine and runs it. Does not run it if all engines are being drained.
    package func add(_ engine: Engine) {
        // Under the lock, so that no drain ends the arrivals in between.
        let isLate = state.withLock { state in
            if !state.isDraining {
                state.engines.append(engine)
                arrival.yield(engine)
            }
            return state.isDraining
        }
        if isLate { engine.loop.shutDown() }
    }

    /// Drains one engine. The others go on.
    package func remove(_ engine: Engine) async {
        state.withLock { state in _ = state.leaving.insert(engine.workerID) }
        await engine.drain()
        for loop in loopsToEnd() { loop.shutDown() }
    }

    /// Drains all engines: see ``Engine/drain()``. Those whose event loop hangs keep no others from being told.
    package func drain() async {
        let engines = state.withLock { state in
            state.isDraining = true
            return state.engines
        }
        arrival.finish()
        await withDiscardingTaskGroup { group in
            for engine in engines { group.addTask { await engine.drain() } }
        }
    }

    private func run(
        _ engine: Engine, _ fault: @Sendable (any Error) -> Void,
        _ successor: @Sendable (Engine, any Error) async -> Engine?
    ) async {
        var failure: (any Error)?
        do { try await engine.run() } catch { failure = error }
        let (isLeaving, isDraining) = state.withLock { state in
            state.engines.removeAll { $0 === engine }
            state.left.append((engine.loop, .now))
            return (state.leaving.remove(engine.workerID) != nil, state.isDraining)
        }
        guard let failure else { return }
        if isLeaving { return fault(failure) }
        if !isDraining, let next = await successor(engine, failure) { return add(next) }
        // Meanwhile it may have been told to leave.
        let hasLeft = state.withLock { state in
            let hasLeft = state.leaving.remove(engine.workerID) != nil
            if !hasLeft, state.failure == nil { state.failure = failure }
            return hasLeft
        }
        if hasLeft { fault(failure) } else { await drain() }
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
