import Dispatch
import Glibc

/// Signals that ask a program to end, as something that can be awaited.
package enum Signals {
    /// The signals among `numbers`, as they come. From now on none of them ends the process by itself.
    package static func stream(_ numbers: [Int32] = [SIGTERM, SIGINT]) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            for number in numbers {
                signal(number, SIG_IGN)
                let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
                // The handler holds its own source, which therefore lives until it is cancelled.
                source.setEventHandler {
                    if case .terminated = continuation.yield(number) { source.cancel() }
                }
                source.activate()
            }
        }
    }
}
