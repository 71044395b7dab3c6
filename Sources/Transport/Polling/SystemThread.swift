import Glibc

/// Starts threads of the system, for loops and for blocking calls.
package enum SystemThread {
    private final class Body {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Starts a thread that runs `body` and ends. If the process cannot start another thread, the process ends.
    package static func start(_ body: @escaping @Sendable () -> Void) {
        pthread_detach(startJoinable(body))
    }

    /// The same, but the caller must call `pthread_join` or `pthread_detach` afterwards.
    static func startJoinable(_ body: @escaping @Sendable () -> Void) -> pthread_t {
        var handle = pthread_t()
        let argument = unsafe Unmanaged.passRetained(Body(body)).toOpaque()
        let code = unsafe pthread_create(
            &handle, nil,
            { argument in
                unsafe Unmanaged<Body>.fromOpaque(argument!).takeRetainedValue().run()
                return nil
            }, argument)
        guard code == 0 else {
            fatalError("cannot start a thread: \(SystemCall.text(of: code)); check the limit (ulimit -u)")
        }
        return handle
    }
}
