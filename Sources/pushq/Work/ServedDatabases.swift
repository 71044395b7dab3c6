import PostgresStore
import Terminal
import Workers

/// The databases that a worker serves, with the engines for each. The list of databases may change while it runs.
actor ServedDatabases {
    /// A database, and the database that keeps its provider tokens if that is another one. An engine gets both at its
    /// start, so if either changes, another engine replaces it.
    struct Place: Hashable {
        let database: DatabaseAddress
        let tokenKeeper: DatabaseAddress?
    }

    /// How a list differs from the previous one.
    struct Change: Equatable {
        var added: [String] = []
        var removed: [String] = []
        var served = 0
    }

    private let group: EngineGroup
    private let enginesForEach: Int
    private let engine: @Sendable (Place, _ connections: Int) -> Engine
    private let connections: @Sendable (_ engines: Int) -> Int
    private(set) var databases: [DatabaseAddress] = []
    private var engines: [Place: [Engine]] = [:]
    /// The last change, which the next one waits for.
    private var lastChange: Task<Change, Never>?

    /// - Parameters:
    ///   - engine: creates an engine for a place, with a maximum number of connections to APNs.
    ///   - connections: returns the maximum number of connections of each engine, given the number of engines.
    init(
        _ group: EngineGroup, enginesForEach: Int, engine: @escaping @Sendable (Place, Int) -> Engine,
        connections: @escaping @Sendable (Int) -> Int
    ) {
        self.group = group
        self.enginesForEach = enginesForEach
        self.engine = engine
        self.connections = connections
    }

    /// The number of databases.
    var count: Int { databases.count }

    /// Serves these databases from now on, at least one, and drains the engines of all others. Returns the changes.
    @discardableResult
    func serve(_ wanted: [DatabaseAddress]) async -> Change {
        let previous = lastChange
        let change = Task {
            _ = await previous?.value
            return await self.change(to: wanted)
        }
        lastChange = change
        return await change.value
    }

    /// Returns the engine that takes the place of one that has ended because a migration in its database stops older
    /// workers; nil if it has ended for another reason. The new one waits until the schema suits it, and says so in the
    /// log. The other databases are served meanwhile.
    func successor(of engine: Engine, after error: any Error) async -> Engine? {
        guard case EngineError.loopEnded(_, let reason) = error, reason is SchemaMismatch else { return nil }
        for (place, those) in engines {
            guard let index = those.firstIndex(where: { $0 === engine }) else { continue }
            let next = self.engine(place, connections(databases.count * enginesForEach))
            engines[place]?[index] = next
            return next
        }
        // The list does not name its database any more.
        await group.remove(engine)
        return nil
    }

    private func change(to wanted: [DatabaseAddress]) async -> Change {
        guard let first = wanted.first else { fatalError("a worker serves at least one database") }
        var change = Change(served: wanted.count)
        change.added = wanted.filter { !databases.contains($0) }.map(\.description)
        change.removed = databases.filter { !wanted.contains($0) }.map(\.description)
        databases = wanted
        let places = wanted.map { Place(database: $0, tokenKeeper: $0 == first ? nil : first) }
        let share = connections(places.count * enginesForEach)
        // New engines begin before others end, so that no database waits for a drain.
        let leaving = engines.filter { !places.contains($0.key) }
        let staying = engines.filter { leaving[$0.key] == nil }.values.joined()
        for place in leaving.keys { engines[place] = nil }
        for place in places where engines[place] == nil {
            let new = (0..<enginesForEach).map { _ in engine(place, share) }
            engines[place] = new
            for engine in new { group.add(engine) }
        }
        // An engine whose event loop hangs keeps no other from this change.
        await withDiscardingTaskGroup { tasks in
            for engine in staying { tasks.addTask { await engine.limitConnections(to: share) } }
            for engine in leaving.values.joined() { tasks.addTask { await self.group.remove(engine) } }
        }
        return change
    }
}
