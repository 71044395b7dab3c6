import Transport

/// The reason why an engine ended although it was not drained.
package enum EngineError: Error, CustomStringConvertible {
    /// A loop ended on its own, without an error or with one.
    case loopEnded(name: String, error: (any Error)?)

    package var description: String {
        switch self {
        case .loopEnded(let name, let error?): "\(error); the engine has ended with its loop '\(name)'"
        case .loopEnded(let name, nil): "the engine ended, because its loop '\(name)' ended before it was told to"
        }
    }
}

/// Loops that run at the same time until all of them have ended. They depend on each other: if a loop ends before it is
/// told to, the others are told to end, too.
enum LoopGroup {
    /// Runs the loops. Each is a child task that prefers the event loop as its executor, so that it resumes there at
    /// once, and not by way of the global pool.
    /// - Parameters:
    ///   - names: the names of the loops. Each loop runs once.
    ///   - mayEnd: whether the loops were told to end.
    ///   - endAll: tells the loops to end. Called once, and only if a loop ended too soon or failed.
    /// - Throws: the error of the first such loop, when all others have ended.
    static func run<Name: Sendable>(
        _ names: [Name], on loop: EventLoop, isolation: isolated (any Actor)? = #isolation,
        _ body: @escaping @Sendable (Name) async throws -> Void, mayEnd: () -> Bool, endAll: () -> Void
    ) async throws(EngineError) {
        var failure: EngineError?
        await withTaskGroup(of: (Name, (any Error)?).self) { group in
            // A closure runs in the isolation of its function only if it captures the isolated parameter (SE-0420).
            // Without this line, 'mayEnd' and 'endAll' would touch the caller's state from another thread.
            _ = isolation
            for name in names {
                group.addTask(executorPreference: loop) {
                    do {
                        try await body(name)
                        return (name, nil)
                    } catch {
                        return (name, error)
                    }
                }
            }
            for await (name, error) in group where failure == nil && (error != nil || !mayEnd()) {
                failure = .loopEnded(name: "\(name)", error: error)
                if !mayEnd() { endAll() }
            }
        }
        if let failure { throw failure }
    }
}
