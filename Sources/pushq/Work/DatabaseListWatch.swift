import Glibc
import PostgresStore
import Terminal
import Transport

/// Decides what a worker does after each reading of its list of databases. It is a value and needs no clock or file.
struct DatabaseListWatch {
    enum Step: Equatable {
        case nothing
        case serve([DatabaseAddress])
        /// The list is valid again, and the same as before.
        case mended
        case refuse(String)
    }

    private var served: [DatabaseAddress]
    private var problem: String?
    private var last: Reading

    private enum Reading: Equatable {
        case databases([DatabaseAddress])
        case problem(String)
    }

    init(serving databases: [DatabaseAddress]) {
        served = databases
        last = .databases(databases)
    }

    /// - Parameter isOrdered: whether SIGHUP said that the list is complete. If not, the list counts only after two
    ///   equal readings, because it may be half written.
    mutating func take(_ result: Result<[DatabaseAddress], any Error>, isOrdered: Bool) -> Step {
        let reading: Reading =
            switch result {
            case .success(let databases): .databases(databases)
            case .failure(let error): .problem("\(error)")
            }
        defer { last = reading }
        guard isOrdered || reading == last else { return .nothing }
        switch reading {
        case .problem(let text):
            guard text != problem else { return .nothing }
            problem = text
            return .refuse(text)
        case .databases(let databases):
            let wasRefused = problem != nil
            problem = nil
            guard databases != served else { return wasRefused ? .mended : .nothing }
            served = databases
            return .serve(databases)
        }
    }
}

/// Reads the list again and again, and serves the databases that it names.
private actor DatabaseListReader {
    static let interval = Duration.seconds(2)

    private let list: DatabaseList
    private let served: ServedDatabases
    private let log: Log
    private var watch: DatabaseListWatch

    init(_ list: DatabaseList, serving databases: [DatabaseAddress], for served: ServedDatabases, _ log: Log) {
        self.list = list
        self.served = served
        self.log = log
        watch = DatabaseListWatch(serving: databases)
    }

    func look(isOrdered: Bool) async {
        switch watch.take(Result { try list.addresses() }, isOrdered: isOrdered) {
        case .nothing: break
        case .serve(let databases): note(await served.serve(databases))
        case .mended: note(await ServedDatabases.Change(served: served.count))
        case .refuse(let reason):
            log.note(
                LogEntry(
                    .error, "databases_refused",
                    "the new list of databases was refused, and the former one still applies: \(reason)",
                    [("reason", .string(reason))]))
        }
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
