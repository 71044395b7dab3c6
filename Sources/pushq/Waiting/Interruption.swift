import Terminal
import Transport

/// Whether somebody has asked this program to end, for loops that come by and look.
final class Interruption: Sendable {
    private let hasCome = Locked(false)

    /// Begins to listen: from now on no signal ends the program by itself.
    init() {
        Task { [weak self] in
            for await _ in Signals.stream() {
                self?.hasCome.withLock { $0 = true }
                return
            }
        }
    }

    var isThere: Bool { hasCome.withLock { $0 } }
}
