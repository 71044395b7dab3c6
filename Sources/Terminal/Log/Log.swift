import FoundationEssentials
import Transport

/// The log of a long-running program, on standard error: one line for each entry, and one for a burst of equal entries.
package final class Log: Sendable {
    private let format: LogFormat
    private let level: LogLevel
    private let isForJournal: Bool
    private let console: Console
    /// Nil: the lines are written by the callers.
    private let writer: LogWriter?
    private let bursts = Locked(LogBursts())

    /// - Parameters:
    ///   - format: nil: text on a terminal, and JSON elsewhere.
    ///   - level: less severe entries are not written.
    ///   - isForJournal: whether systemd's journal reads the log: ``StandardStream/isReadByJournal(_:)``.
    ///   - isApart: whether a thread of its own writes the lines (``LogWriter``), so that nobody waits for the reader.
    package init(
        _ format: LogFormat?, _ level: LogLevel = .info, isForJournal: Bool = false, isApart: Bool = false,
        on console: Console
    ) {
        let format = format ?? (console.isWatched && !console.speaksJSON ? .text : .json)
        self.format = format
        self.level = level
        self.isForJournal = isForJournal
        self.console = console
        writer =
            isApart
            ? LogWriter {
                console.log($0)
            } lossLine: {
                format.line(of: .lost(lines: $0), at: .now, forJournal: isForJournal)
            } : nil
    }

    /// Whether an entry of that level is written. Ask before making an entry.
    package func says(_ level: LogLevel) -> Bool { level >= self.level }

    /// Writes an entry, unless its level is too low, or an equal entry was written a moment ago.
    package func note(_ entry: LogEntry) {
        guard says(entry.level) else { return }
        bursts.withLock { bursts in bursts.take(entry, at: .now).forEach(write) }
    }

    /// Writes the summaries that are due, every second until it is cancelled, and then the rest.
    package func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: .seconds(1))
            bursts.withLock { bursts in bursts.due(at: .now).forEach(write) }
        }
        end()
    }

    /// Writes the summaries of all entries that are still held back. Waits a second at most for the reader.
    package func end() {
        bursts.withLock { bursts in bursts.rest(at: .now).forEach(write) }
        writer?.flush()
    }

    private func write(_ entry: LogEntry) {
        let line = format.line(of: entry, at: .now, forJournal: isForJournal)
        if let writer { writer.add(line) } else { console.log(line) }
    }
}

extension LogEntry {
    /// Lines were left out, because their reader did not take them for a while.
    static func lost(lines count: Int) -> LogEntry {
        LogEntry(
            .warning, "log_lines_lost",
            "\(NumberText.counted(count, "line")) of this log were not written: its reader had stopped reading",
            [("count", .integer(count))])
    }
}
