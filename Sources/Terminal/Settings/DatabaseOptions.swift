package import PostgresStore
package import Transport

/// The database of a command.
package struct DatabaseOptions: ParameterGroup {
    @Option(
        "The database, as postgres://user@host/name. By default PUSHQ_DATABASE_URL, else libpq's PGHOST, PGDATABASE, …",
        "URL")
    var databaseUrl: ConnectionString?

    package init() {}

    /// The address of the database.
    package var address: DatabaseAddress {
        get throws(PostgresError) { try DatabaseAddress(url: databaseUrl?.text) }
    }

    /// Connects, runs `body` and disconnects.
    ///
    /// - Parameter body: runs on a loop of its own, to which the connection belongs.
    package func session<Success: Sendable>(
        _ body: @Sendable (PostgresConnection) async throws -> Success
    ) async throws -> Success {
        try await Self.session(at: try address, body)
    }

    /// The same for a command that continues when the connection is lost. If the database cannot be reached at first,
    /// the command ends; later it connects again.
    package func enduringSession<Success: Sendable>(
        _ body: @Sendable (PostgresConnection, ReconnectingConnection) async throws -> Success
    ) async throws -> Success {
        let loop = EventLoop(name: "store")
        defer { loop.shutDownAndWait() }
        let (address, console) = (try address, Console.current)
        Self.warn(of: address)
        return try await loop.run { _ in
            let newest = NewestTimeline(at: address.description)
            let first = try await Self.connect(to: address, newest, on: loop, console)
            let store = Self.lastingConnection(to: address, newest, on: loop)
            store.adopt(first)
            defer { store.close() }
            return try await Self.explain(by: first, at: address) { try await body(first, store) }
        }
    }

    /// The same with another address.
    package static func session<Success: Sendable>(
        at address: DatabaseAddress, _ body: @Sendable (PostgresConnection) async throws -> Success
    ) async throws -> Success {
        let loop = EventLoop(name: "store")
        defer { loop.shutDownAndWait() }
        let console = Console.current
        Self.warn(of: address)
        return try await loop.run { _ in
            let newest = NewestTimeline(at: address.description)
            let connection = try await Self.connect(to: address, newest, on: loop, console)
            defer { connection.close() }
            return try await Self.explain(by: connection, at: address) { try await body(connection) }
        }
    }

    /// Runs `body` with a connection that is opened again whenever it is lost, for a program that continues meanwhile.
    ///
    /// - Parameter body: runs on a loop of its own, to which the connection belongs.
    package func lastingSession(
        _ body: @Sendable (ReconnectingConnection, EventLoop) async throws -> Void
    ) async throws {
        let loop = EventLoop(name: "store")
        defer { loop.shutDownAndWait() }
        let (address, console) = (try address, Console.current)
        Self.warn(of: address)
        try await loop.run { _ in
            let newest = NewestTimeline(at: address.description)
            await Self.survey(address, newest, on: loop, console)
            let store = Self.lastingConnection(to: address, newest, on: loop)
            defer { store.close() }
            let first = try await store.current()
            try await Self.explain(by: first, at: address) { try await body(store, loop) }
        }
    }

    /// Makes a connection that is opened again whenever it is lost. Its owner closes it.
    package func lastingConnection(on loop: EventLoop) throws(PostgresError) -> ReconnectingConnection {
        let address = try address
        return Self.lastingConnection(to: address, NewestTimeline(at: address.description), on: loop)
    }

    private static func lastingConnection(
        to address: DatabaseAddress, _ newest: NewestTimeline, on loop: EventLoop
    ) -> ReconnectingConnection {
        ReconnectingConnection(to: address, as: ProcessArguments.program, on: loop) {
            connection throws(PostgresError) in
            connection.terms = StatementTerms()
            guard address.namesSeveralHosts else { return }
            if newest.timeline == 0 { await newest.survey(address, as: ProcessArguments.program, on: loop) }
            try await connection.noteTimeline(in: newest)
        }
    }

    /// Opens the session of a command, at the newest primary.
    private static func connect(
        to address: DatabaseAddress, _ newest: NewestTimeline, on loop: EventLoop, _ console: Console?,
        needsWrites: Bool = false
    ) async throws(PostgresError) -> PostgresConnection {
        let first = await survey(address, newest, on: loop, console)?.host ?? 0
        let connection = try await PostgresConnection.connect(
            to: address, as: ProcessArguments.program, on: loop, needsWrites: needsWrites, startingWith: first)
        connection.terms = StatementTerms()
        connection.onWarning = { console?.warn($0) }
        guard address.namesSeveralHosts else { return connection }
        do throws(PostgresError) {
            // The newest primary may have refused this session, and an older one taken it.
            try await connection.noteTimeline(in: newest)
        } catch {
            connection.close()
            throw error
        }
        return connection
    }

    /// Opens another session of a command that writes, at the newest primary of an address. The caller closes it.
    package static func connect(
        toWriteTo address: DatabaseAddress, on loop: EventLoop
    ) async throws(PostgresError) -> PostgresConnection {
        warn(of: address)
        return try await connect(
            to: address, NewestTimeline(at: address.description), on: loop, Console.current, needsWrites: true)
    }

    /// Looks at all servers of the address, and warns if several accept writes. Returns the newest primary; nil if the
    /// address names only one server, or none accepts writes.
    @discardableResult
    private static func survey(
        _ address: DatabaseAddress, _ newest: NewestTimeline, on loop: EventLoop, _ console: Console?
    ) async -> WritableServer? {
        let servers = await newest.survey(address, as: ProcessArguments.program, on: loop)
        guard let chosen = servers.newest else { return nil }
        if servers.count > 1 { console?.warn(Messages.severalPrimaries(servers.summary, used: chosen.place)) }
        return chosen
    }

    /// The servers of the address that accept writes; none if it names only one server.
    package func writableServers() async throws -> [WritableServer] {
        let loop = EventLoop(name: "store")
        defer { loop.shutDownAndWait() }
        let address = try address
        Self.warn(of: address)
        return await loop.run { _ in await address.writableServers(as: ProcessArguments.program, on: loop) }
    }

    /// Warns once of what an address leaves open to others: call it before a session that is opened in another way.
    package static func warn(of address: DatabaseAddress) {
        for warning in [address.warning, [address].warningOfUnverifiedServers].compactMap(\.self)
        where warned.withLock({ $0.insert(warning).inserted }) {
            Console.current?.warn(warning)
        }
    }

    /// The warnings of this process. A command may open several sessions.
    private static let warned = Locked<Set<String>>([])

    /// Runs `body`, and turns refusals by PostgreSQL and pushq's functions into messages for users.
    private static func explain<Success>(
        by connection: PostgresConnection, at address: DatabaseAddress, _ body: () async throws -> Success
    ) async throws -> Success {
        do {
            return try await body()
        } catch let error as PostgresError where error.isNotAllowed {
            guard let standing = try? await connection.loginRights() else { throw error }
            throw MissingRights(standing: standing, reason: error)
        } catch PostgresError.notMigrated(let error) where error.state == "3F000" {
            throw Failure(Messages.noSchema(in: address.place))
        } catch PostgresError.server(let error) where ownRefusals.contains(error.state) {
            throw Failure(error.message + (error.hint.map { "; \($0)" } ?? ""))
        }
    }

    /// The codes with which pushq's own functions refuse a call: for example, a value is wrong, an object does not
    /// exist, or a key was used for something else. Their messages are for users.
    package static let ownRefusals: [SQLState] = ["PQ400", "PQ404", "PQ409", "PQ410", "PQ503", "22023"]
}

/// A libpq connection string on a command line. It may contain a password, so errors do not repeat it.
package struct ConnectionString: ArgumentValue {
    package let text: String

    /// The address that it names.
    package var address: DatabaseAddress {
        get throws(PostgresError) { try DatabaseAddress(url: text) }
    }

    package static let placeholder = "URL"
    package static let isConfidential = true

    package static func parse(_ text: String) throws(InvalidValue) -> ConnectionString {
        guard !text.isEmpty else { throw InvalidValue(Messages.empty) }
        return ConnectionString(text: text)
    }
}

extension DatabaseAddress {
    /// The warning about a password file that is not read because other users have access to it.
    package var warning: String? {
        exposedPasswordFile.map { Messages.passwordFileExposed($0.path, mode: $0.mode) }
    }
}

extension [DatabaseAddress] {
    /// The warning about servers on other machines that nothing verifies; nil if there are none.
    package var warningOfUnverifiedServers: String? {
        var hosts: [String] = []
        for host in flatMap(\.unverifiedHosts) where !hosts.contains(host) { hosts.append(host) }
        return hosts.isEmpty ? nil : Messages.serversNotVerified(hosts)
    }
}
