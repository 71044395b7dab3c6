import Transport

/// Whether somebody has asked this program to end, for loops that come by and look.
package final class Interruption: Sendable {
    private let hasCome = Locked(false)

    /// Begins to listen: from now on no signal ends the program by itself.
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
