import Terminal
import Transport

/// The options of a command that writes a log.
struct LogOptions: ParameterGroup {
    @Option("The format of the log: text, or one JSON object per line. By default text on a terminal, else JSON.")
    var logFormat: LogFormat?
    @Option("The least severe level that is logged.")
    var logLevel: LogLevel = .info

    /// The log of this process.
    func log(on console: Console) -> Log {
        Log(
            logFormat, logLevel,
            isForJournal: StandardStream.errors.isReadByJournal(ThisProcess.environment), isApart: true, on: console)
    }
}
