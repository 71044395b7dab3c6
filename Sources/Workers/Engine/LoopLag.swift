import Metrics
import Transport

/// Measures how late the loop's timers fire: how long one turn keeps everything else waiting.
///
/// Belongs to the engine's event loop.
final class LoopLag {
    private static let interval = Duration.milliseconds(250)

    private let loop: EventLoop
    private let figures: EngineFigures
    private var timer: Timer?

    init(_ context: EngineContext) {
        loop = context.loop
        figures = context.figures
    }

    /// Measures until ``stop()``.
    func start() {
        let due = loop.now + Self.interval
        timer = loop.schedule(after: Self.interval) { [self] in
            figures.counts.loopLag.observe(due.duration(to: loop.now))
            start()
        }
    }

    func stop() {
        timer?.cancel()
    }
}
