import PostgresStore
import Terminal
import Workers

/// The databases that a worker serves, with the engines for each, as its list says: which may change while it runs.
actor ServedDatabases {
    /// A database, and the one that keeps its provider tokens, if that is another one. An engine knows both from its
    /// start, so where either changes, it makes room for another engine.
    struct Place: Hashable {
        let database: DatabaseAddress
        let tokenKeeper: DatabaseAddress?
    }

    /// How a list differs from the one before.
    struct Change: Equatable {
        var added: [String] = []
        var removed: [String] = []
        var served = 0
    }

    private let crew: EngineCrew
    private let enginesForEach: Int
    private let engine: @Sendable (Place, _ connections: Int) -> Engine
    private let connections: @Sendable (_ engines: Int) -> Int
    private(set) var databases: [DatabaseAddress] = []
    private var engines: [Place: [Engine]] = [:]

    /// - Parameters:
    ///   - engine: makes one for a place, with at most so many connections to APNs.
    ///   - connections: how many each of so many engines may have.
    init(
        _ crew: EngineCrew, enginesForEach: Int, engine: @escaping @Sendable (Place, Int) -> Engine,
        connections: @escaping @Sendable (Int) -> Int
    ) {
        self.crew = crew
        self.enginesForEach = enginesForEach
        self.engine = engine
        self.connections = connections
    }

    /// The number of databases.
    var count: Int { databases.count }

    /// Serves these from now on, at least one, and has what else is served drained. Returns what is different.
    @discardableResult
    func serve(_ wanted: [DatabaseAddress]) async -> Change {
        guard let first = wanted.first else { preconditionFailure("a worker serves at least one database") }
        var change = Change(served: wanted.count)
        change.added = wanted.filter { !databases.contains($0) }.map(\.description)
        change.removed = databases.filter { !wanted.contains($0) }.map(\.description)
        databases = wanted
        let places = wanted.map { Place(database: $0, tokenKeeper: $0 == first ? nil : first) }
        let share = connections(places.count * enginesForEach)
        // Those that come begin before others end, so that nobody waits for a drain.
        let leaving = engines.filter { !places.contains($0.key) }
        for engine in engines.values.joined() { await engine.limitConnections(to: share) }
        for place in leaving.keys { engines[place] = nil }
        for place in places where engines[place] == nil {
            let new = (0..<enginesForEach).map { _ in engine(place, share) }
            engines[place] = new
            for engine in new { crew.add(engine) }
        }
        for engine in leaving.values.joined() { await crew.remove(engine) }
        return change
    }
}
