import FoundationEssentials
import Transport

/// The log of a program that runs for long, on standard error: one line for each entry, and one for a burst of the
/// same.
package final class Log: Sendable {
    private let format: LogFormat
    private let level: LogLevel
    private let isForJournal: Bool
    private let console: Console
    private let bursts = Locked(LogBursts())

    /// - Parameters:
    ///   - format: nil for text where someone is watching, and JSON elsewhere.
    ///   - level: entries that matter less are not written.
    ///   - isForJournal: whether systemd's journal reads it: ``StandardStream/isReadByJournal(_:)``.
    package init(_ format: LogFormat?, _ level: LogLevel = .info, isForJournal: Bool = false, on console: Console) {
        self.format = format ?? (console.isWatched && !console.speaksJSON ? .text : .json)
        self.level = level
        self.isForJournal = isForJournal
        self.console = console
    }

    /// Whether an entry of that level is written. Ask before making one.
    package func says(_ level: LogLevel) -> Bool { level >= self.level }

    /// Writes an entry, unless it matters too little, or the same was written a moment ago.
    package func note(_ entry: LogEntry) {
        guard says(entry.level) else { return }
        bursts.withLock { bursts in bursts.take(entry, at: .now).forEach(write) }
    }

    /// Says how much was held back, every second until it is cancelled, and the rest then.
    package func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(1))
            bursts.withLock { bursts in bursts.due(at: .now).forEach(write) }
        }
        end()
    }

    /// Says what is still held back.
    package func end() {
        bursts.withLock { bursts in bursts.rest(at: .now).forEach(write) }
    }

    private func write(_ entry: LogEntry) {
        console.log(format.line(of: entry, at: .now, forJournal: isForJournal))
    }
}
