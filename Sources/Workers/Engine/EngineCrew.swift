import Transport

/// The engines of one process. They share nothing, but end together: if one of them cannot start or fails, the others
/// are drained, so that the process ends with its error instead of running with less than it was asked for.
package struct EngineCrew: Sendable {
    private let engines: [Engine]

    package init(_ engines: [Engine]) {
        self.engines = engines
    }

    /// Runs all engines until they are drained. Throws the first error of any of them, when all others have ended.
    package func run() async throws {
        var failure: (any Error)?
        await withTaskGroup(of: (any Error)?.self) { group in
            for engine in engines {
                group.addTask {
                    do {
                        try await engine.run()
                        return nil
                    } catch {
                        return error
                    }
                }
            }
            for await error in group {
                guard let error, failure == nil else { continue }
                failure = error
                await drain()
            }
        }
        for engine in engines { engine.loop.shutDown() }
        for engine in engines { engine.loop.shutDownAndWait() }
        if let failure { throw failure }
    }

    /// Drains all engines, see ``Engine/drain()``.
    package func drain() async {
        for engine in engines { await engine.drain() }
    }
}
