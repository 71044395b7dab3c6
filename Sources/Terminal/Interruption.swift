import Glibc
import Transport

/// Whether a signal has asked this program to end. Loops poll it.
package final class Interruption: Sendable {
    private let hasCome = Locked(false)

    /// Begins to listen. From now on, the signals that ask to end do not end the program by themselves.
    /// - Parameter patience: how long after the signal this object may exist. Then the signal ends the program after
    ///   all: it may wait for a terminal or a pipe, and poll nothing. Nil: as long as it wants.
    package init(patience: Duration? = nil) {
        let signals = Signals.stream()
        Task { [weak self] in
            for await number in signals {
                self?.hasCome.withLock { $0 = true }
                guard let patience else { return }
                try await Task.sleep(for: patience)
                guard self != nil else { return }
                signal(number, SIG_DFL)
                raise(number)
            }
        }
    }

    /// Whether a signal has come.
    package var isRequested: Bool { hasCome.withLock { $0 } }
}
