/// An actor that lives on a loop and has no state of its own. Tests and commands use it to run `async` code on a loop;
/// the engine has its own actors.
package actor LoopActor {
    /// The loop this actor runs on.
    package nonisolated let loop: EventLoop

    @safe package nonisolated var unownedExecutor: UnownedSerialExecutor {
        unsafe loop.asUnownedSerialExecutor()
    }

    package init(loop: EventLoop) {
        self.loop = loop
    }

    fileprivate func perform(_ body: () async -> Void) async {
        await body()
    }
}

extension EventLoop {
    /// Runs `body` on the loop's thread and returns what it returns. `body` may make and use objects that belong to the
    /// loop: `try await loop.run { _ in … }`.
    package func run<Success: Sendable, Failure: Error>(
        _ body: @Sendable (isolated LoopActor) async throws(Failure) -> Success
    ) async throws(Failure) -> Success {
        let actor = LoopActor(loop: self)
        return try await withTaskExecutorPreference(self) { () throws(Failure) in try await body(actor) }
    }

    /// Starts `body` as a task of the loop, from code that runs on the loop. It may capture objects that belong to the
    /// loop. The owner of the work makes sure that it ends; the loop does not wait for it.
    package func startTask(_ body: @escaping () async -> Void) {
        checkIsolated()
        // This is sound because the closure does not leave the loop's thread. It was made there, and it runs isolated
        // to an actor of the loop, with the loop as the task's preferred executor.
        nonisolated(unsafe) let body = body
        let actor = LoopActor(loop: self)
        Task(executorPreference: self) { unsafe await actor.perform(body) }
    }
}
