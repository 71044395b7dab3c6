import Terminal
import Transport

/// The options of a command that writes a log.
struct LogOptions: ParameterGroup {
    @Option("How the log is written: as text, or as one JSON object a line. Without it: text to a terminal, else JSON.")
    var logFormat: LogFormat?
    @Option("What the log holds: entries of this level and of those that matter more.")
    var logLevel: LogLevel = .info

    /// The log of this process.
    func log(on console: Console) -> Log {
        Log(
            logFormat, logLevel,
            isForJournal: StandardStream.errors.isReadByJournal(ThisProcess.environment), on: console)
    }
}
