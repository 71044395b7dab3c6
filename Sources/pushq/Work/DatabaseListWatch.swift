import PostgresStore

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
