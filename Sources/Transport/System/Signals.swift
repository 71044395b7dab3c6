import Dispatch
import Glibc

/// Lets a task await the signals that ask a program to end.
package enum Signals {
    /// The signals that ask to end: from a service manager, from Ctrl-C, and from a terminal that was closed. SIGHUP is
    /// left out if the program was started to outlive its terminal (nohup(1)).
    package static var ending: [Int32] { [SIGTERM, SIGINT] + (isIgnored(SIGHUP) ? [] : [SIGHUP]) }

    /// Returns the signals among `numbers` as they come. After this call none is missed, and none of them ends the
    /// process by itself.
    package static func stream(_ numbers: [Int32] = Signals.ending) -> AsyncStream<Int32> {
        AsyncStream { SignalChannel.shared.report(numbers, to: $0) }
    }

    static func isIgnored(_ number: Int32) -> Bool {
        var action = sigaction()
        guard unsafe sigaction(number, nil, &action) == 0 else { return false }
        let (handler, ignoring) = unsafe (action.__sigaction_handler.sa_handler, SIG_IGN)
        return unsafe unsafeBitCast(handler, to: Int.self) == unsafeBitCast(ignoring, to: Int.self)
    }
}

/// The pair of sockets through which a signal handler reports signals to the rest of the process.
///
/// A Dispatch signal source is not used: Dispatch registers it on another thread some time after its activation, and
/// would lose a signal that comes before.
private final class SignalChannel: Sendable {
    static let shared = SignalChannel()

    /// The socket that the handler writes to. It is set before there is a handler.
    private nonisolated(unsafe) static var input: CInt = -1

    private let listeners = Locked<[(numbers: [Int32], continuation: AsyncStream<Int32>.Continuation)]>([])

    private init() {
        var ends: [CInt] = [-1, -1]
        let kind = [SOCK_STREAM, SOCK_CLOEXEC, SOCK_NONBLOCK].reduce(0) { $0 | CInt($1.rawValue) }
        let result = unsafe socketpair(AF_UNIX, kind, 0, &ends)
        precondition(result == 0, "a process that can start can open two files")
        unsafe Self.input = ends[1]
        // The handler keeps a reference to its own source, which therefore lives as long as the process.
        let source = DispatchSource.makeReadSource(fileDescriptor: ends[0], queue: .global())
        source.setEventHandler { [output = ends[0]] in
            var numbers = [UInt8](repeating: 0, count: 64)
            let count = unsafe read(output, &numbers, numbers.count)
            guard count > 0 else { return }
            for number in numbers[..<count] { self.report(Int32(number)) }
            _ = source
        }
        source.activate()
    }

    /// Reports the signals from now on.
    func report(_ numbers: [Int32], to continuation: AsyncStream<Int32>.Continuation) {
        listeners.withLock { $0.append((numbers, continuation)) }
        for number in numbers {
            signal(number) { number in
                // A handler may interrupt code between a system call and its look at `errno`, so it keeps `errno`.
                let problem = errno
                var byte = UInt8(truncatingIfNeeded: number)
                _ = unsafe write(SignalChannel.input, &byte, 1)
                errno = problem
            }
        }
    }

    private func report(_ number: Int32) {
        listeners.withLock { listeners in
            listeners.removeAll { listener in
                guard listener.numbers.contains(number) else { return false }
                if case .terminated = listener.continuation.yield(number) { return true }
                return false
            }
        }
    }
}
