import Transport

/// Whether a signal has asked this program to end. Loops poll it.
package final class Interruption: Sendable {
    private let hasCome = Locked(false)

    /// Begins to listen. From now on, the signals that ask to end do not end the program by themselves.
    package init() {
        let signals = Signals.stream()
        Task { [weak self] in
            for await _ in signals {
                self?.hasCome.withLock { $0 = true }
                return
            }
        }
    }

    /// Whether a signal has come.
    package var isThere: Bool { hasCome.withLock { $0 } }
}
