import Glibc
import PostgresStore
import Terminal
import Transport

/// Reads the list again and again, and serves the databases that it names.
private actor DatabaseListReader {
    static let interval = Duration.seconds(2)

    private let list: DatabaseList
    private let served: ServedDatabases
    private let log: Log
    private var watch: DatabaseListWatch
    /// The warning about servers that nothing verifies that applies now: at first the one that was logged at the start.
    private var warning: String?

    init(_ list: DatabaseList, serving databases: [DatabaseAddress], for served: ServedDatabases, _ log: Log) {
        self.list = list
        self.served = served
        self.log = log
        watch = DatabaseListWatch(serving: databases)
        warning = databases.warningOfUnverifiedServers
    }

    func look(isOrdered: Bool) async {
        switch watch.take(Result { try list.addresses() }, isOrdered: isOrdered) {
        case .nothing: break
        case .serve(let databases):
            warn(of: databases)
            note(await served.serve(databases))
        case .mended: note(await ServedDatabases.Change(served: served.count))
        case .refuse(let reason):
            log.note(
                LogEntry(
                    .error, "databases_refused",
                    "the new list of databases was refused, and the former one still applies: \(reason)",
                    [("reason", .string(reason))]))
        }
    }

    /// Warns of servers that nothing verifies, before a login is sent there. If they stay the same, the warning is not
    /// repeated.
    private func warn(of databases: [DatabaseAddress]) {
        let new = databases.warningOfUnverifiedServers
        if let new, new != warning { log.note(LogEntry(.warning, "server_unverified", new)) }
        warning = new
    }

    private func note(_ change: ServedDatabases.Change) {
        let parts =
            change.added.map { "\($0) is added" } + change.removed.map { "\($0) is removed and drained" }
        let what = parts.isEmpty ? "nothing changes" : parts.joined(separator: ", ")
        log.note(
            LogEntry(
                .notice, "databases_changed", "the list of databases was read: \(what), \(change.served) are served",
                [
                    ("added", .array(change.added.map(JSON.string))),
                    ("removed", .array(change.removed.map(JSON.string))), ("count", .integer(change.served)),
                ]))
    }
}

extension ServedDatabases {
    /// Follows the list in a file that names the databases served now.
    /// - Returns: the tasks to cancel at the end.
    func follow(_ list: DatabaseList, _ log: Log) -> [Task<Void, Never>] {
        let reader = DatabaseListReader(list, serving: databases, for: self, log)
        let signals = Signals.stream([SIGHUP])
        return [
            Task {
                while !Task.isCancelled {
                    try? await Task.sleep(for: DatabaseListReader.interval)
                    await reader.look(isOrdered: false)
                }
            },
            Task { for await _ in signals { await reader.look(isOrdered: true) } },
        ]
    }
}
