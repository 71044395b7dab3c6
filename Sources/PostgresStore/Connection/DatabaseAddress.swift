import CPostgres
import QueueCore
import Transport

/// The address of the database and the login: from `--database-url`, else `PUSHQ_DATABASE_URL`, else what libpq finds
/// in `PGHOST`, `PGUSER`, `PGPASSWORD`, the password file and its other places.
package struct DatabaseAddress: Hashable, Sendable {
    /// libpq's connection parameters that were given or come from the environment.
    private var parameters: [String: String]
    /// The parameter `target_session_attrs`, if the address or the environment sets it; libpq's own default does not
    /// count.
    private let targetSessionAttributes: String?

    /// - Parameter url: `postgresql://user@host:5432/database`, or libpq's `host=… dbname=…`; nil if none was given.
    /// - Throws: ``PostgresError/badAddress(_:)``
    package init(
        url: String?, environment: [String: String] = ThisProcess.environment
    ) throws(PostgresError) {
        let given = [url, environment["PUSHQ_DATABASE_URL"]].compactMap { $0 }.first { !$0.isEmpty }
        let ownParameters = try given.map(Self.parse) ?? [:]
        // The entry of a service may name several hosts, which are tried here and not by libpq.
        let defaults =
            ownParameters["service"] == nil
            ? unsafe Self.values(PQconndefaults()) : try Self.withServiceEntry(ownParameters)
        targetSessionAttributes =
            ownParameters["target_session_attrs"]
            ?? defaults["target_session_attrs"].flatMap { $0 == "any" ? nil : $0 }
            ?? environment["PGTARGETSESSIONATTRS"].flatMap { $0.isEmpty ? nil : $0 }
        // libpq's own default would count as an explicit choice.
        var said = defaults
        if environment["PGGSSENCMODE", default: ""].isEmpty, said["gssencmode"] == "prefer" { said["gssencmode"] = nil }
        if environment["PGSSLMODE", default: ""].isEmpty, said["sslmode"] == "prefer" { said["sslmode"] = nil }
        parameters = said.merging(ownParameters) { $1 }
        try check()
    }

    /// The address for errors and logs; never contains the password.
    package var description: String { "\(place) as \(user)" }

    /// The database and its hosts, without the user.
    package var place: String {
        let places = hosts.map(\.place)
        let place = places.isEmpty ? "on this machine" : "at \(places.joined(separator: ","))"
        return "database \(self["dbname"] ?? user) \(place)"
    }

    /// One of the servers to try.
    struct Host: Equatable {
        var name: String
        /// The numeric address, if it was given; the name is then not looked up.
        var address: String
        var port: String
        /// Whether the host is a folder with the server's socket; there is no name to look up.
        var isSocket: Bool { address.isEmpty && (name.hasPrefix("/") || name.hasPrefix("@")) }
        /// Whether what is sent to the host stays on this machine. Names are not looked up for this.
        var isOnThisMachine: Bool {
            guard !isSocket, !name.isEmpty else { return true }
            let place = (address.isEmpty ? name : address).lowercased()
            guard let ip = IPAddress(place) else { return place == "localhost" || place.hasSuffix(".localhost") }
            return Self.loopback.contains { $0.contains(ip) }
        }
        /// The host for messages.
        package var place: String { port == "5432" || isSocket ? name : "\(name):\(port)" }

        private static let loopback = ["127.0.0.0/8", "::1"].map { AddressBlock($0)! }
    }

    /// The hosts in the order in which they are tried; none if libpq's default socket is meant.
    var hosts: [Host] {
        let (names, addresses) = (list("host"), list("hostaddr"))
        let ports = list("port")
        return (0..<max(names.count, addresses.count)).map { index in
            let address = index < addresses.count ? addresses[index] : ""
            let port = ports.count == 1 ? ports[0] : index < ports.count ? ports[index] : ""
            return Host(
                name: index < names.count && !names[index].isEmpty ? names[index] : address, address: address,
                port: port.isEmpty ? "5432" : port)
        }
    }

    private func list(_ name: String) -> [String] {
        (self[name] ?? "").split(separator: ",", omittingEmptySubsequences: false).map(String.init)
            .droppingOnlyEmpty
    }

    /// Each host as an address of its own; empty if there is only one.
    package var eachHost: [DatabaseAddress] {
        guard hosts.count > 1 else { return [] }
        return hosts.map { host in
            var one = self
            one.parameters["host"] = host.name
            one.parameters["hostaddr"] = host.address
            one.parameters["port"] = host.port
            return one
        }
    }

    /// The same address with another order of its hosts: the one at a position first, then those that follow it.
    package func startingWith(host first: Int) -> DatabaseAddress {
        let hosts = eachHost
        guard hosts.count > 1 else { return self }
        let order = hosts[first...] + hosts[..<first]
        var all = self
        for name in ["host", "hostaddr", "port"] where self[name] != nil {
            all.parameters[name] = order.map { $0.parameters[name] ?? "" }.joined(separator: ",")
        }
        return all
    }

    /// The hosts on other machines, if nobody has said how libpq is to protect a connection to them: with its own
    /// default, `sslmode=prefer`, it does without TLS where the server offers none, and verifies no certificate.
    package var unverifiedHosts: [String] {
        // From version 16 on, libpq takes `verify-full` as the default for the system's authorities.
        let isVerified = self["sslrootcert"] == "system" && PQlibVersion() >= 160_000
        guard self["sslmode"] == nil, self["gssencmode"] != "require", !isVerified else { return [] }
        return hosts.filter { !$0.isOnThisMachine }.map(\.name)
    }

    /// libpq's password file, if libpq would ignore it because other users have access to it. libpq would report that
    /// on standard error in its own way, so it does not get the path of such a file (`libpqParameters`), and the caller
    /// reports it.
    package var exposedPasswordFile: (path: String, mode: Int)? {
        guard self["password"] == nil, self["service"] == nil,
            let path = self["passfile"] ?? ThisProcess.environment["HOME"].map({ "\($0)/.pgpass" }),
            let file = FileStatus(path), file.isRegular, file.permissions & 0o077 != 0
        else { return nil }
        return (path, file.permissions)
    }

    /// How long one host may take, if the address says so; libpq treats one second as two.
    var connectTimeout: Duration? {
        guard let seconds = self["connect_timeout"].flatMap(Int.init), seconds > 0 else { return nil }
        return .seconds(max(2, seconds))
    }

    private var user: String { self["user"] ?? "" }

    private subscript(name: String) -> String? {
        parameters[name].flatMap { $0.isEmpty ? nil : $0 }
    }

    /// The parameters that libpq gets for one attempt.
    /// - Parameters:
    ///   - host: one of ``hosts``; nil: libpq's default socket.
    ///   - address: the numeric address of the host; empty for a socket.
    ///   - needsWrites: refuses a server that takes no writes. With several hosts this is always so: a standby among
    ///     them is there to replace the primary.
    ///   - applicationName: shown in `pg_stat_activity`.
    func libpqParameters(
        for host: Host?, at address: String, needsWrites: Bool, applicationName: String
    ) -> [String: String] {
        var all = parameters
        if let host {
            all["host"] = host.name
            all["port"] = host.port
            all["hostaddr"] = address.isEmpty ? nil : address
        }
        if let targetSessionAttributes {
            all["target_session_attrs"] = targetSessionAttributes
        } else if needsWrites || hosts.count > 1 {
            all["target_session_attrs"] = "read-write"
        }
        all["application_name"] = applicationName
        all["client_encoding"] = "UTF8"
        // The path of a file that cannot exist: without a path, libpq would use its default file.
        if exposedPasswordFile != nil { all["passfile"] = "/dev/null/none" }
        return all.merging(Self.usual) { given, _ in given }
    }

    /// Used unless the address sets them. They detect within a minute that a peer disappeared without a message: by
    /// probes while nothing is sent, and otherwise by the time (in ms) for which sent data stays unacknowledged.
    private static let usual = [
        "keepalives": "1", "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3",
        "tcp_user_timeout": "30000",
        // Disables encryption by Kerberos: libpq would look for tickets, which reads files and may ask a server,
        // outside any deadline. Kerberos may still authenticate the login.
        "gssencmode": "disable",
    ]

    /// The connection parameters for other users on another machine, in libpq's format: without the user and its
    /// secrets. Paths in it are those of the other machine.
    /// - Parameter passfile: the file with their passwords, on that machine; nil: libpq's default file.
    /// - Throws: ``PostgresError/badAddress(_:)`` if a service file of this machine contains the address.
    package func connectionForOthers(as applicationName: String, passfile: String?) throws(PostgresError) -> String {
        guard self["service"] == nil else {
            throw .badAddress("it names a service; name host and database instead, which other machines understand")
        }
        var told = Self.usual.merging(parameters.filter { Self.forOthers.contains($0.key) && !$0.value.isEmpty }) { $1 }
        told["dbname"] = self["dbname"] ?? user
        told["target_session_attrs"] = targetSessionAttributes ?? (hosts.count > 1 ? "read-write" : nil)
        told["application_name"] = applicationName
        told["passfile"] = passfile
        return told.sorted { $0.key < $1.key }.map { name, value in
            let escaped = value.replacing(scalar: "\\", with: "\\\\").replacing(scalar: "'", with: "\\'")
            return "\(name)='\(escaped)'"
        }.joined(separator: " ")
    }

    private static let forOthers: Set = [
        "host", "hostaddr", "port", "sslmode", "sslrootcert", "sslcrl", "ssl_min_protocol_version", "channel_binding",
        "keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
    ]

    // MARK: Reading

    private static func parse(_ text: String) throws(PostgresError) -> [String: String] {
        var message: UnsafeMutablePointer<CChar>?
        let options = unsafe PQconninfoParse(text, &message)
        defer { unsafe PQfreemem(message) }
        guard let options = unsafe options else {
            let reason = unsafe message.map { unsafe String(cString: $0) } ?? "out of memory"
            // libpq quotes the text that it could not read, which may be a password.
            throw .badAddress(reason.onOneLine.withoutQuotedParts)
        }
        return unsafe values(options)
    }

    /// Adds what libpq finds in the entry of the service that the parameters name, and its defaults.
    ///
    /// libpq reads service files only for a connection, or for all of the process (`PGSERVICE`). So this begins a
    /// connection that libpq refuses before it looks up or connects anything, because of a value that it does not know.
    /// A password is given, so that libpq does not look for one. These two remain unknown here, and libpq reads them
    /// again for each connection.
    private static func withServiceEntry(_ own: [String: String]) throws(PostgresError) -> [String: String] {
        let unknown = ["password": "unknown", "channel_binding": "unknown"]
        guard let connection = unsafe BegunSession.start(own.merging(unknown) { $1 }) else {
            throw .badAddress("out of memory")
        }
        defer { unsafe PQfinish(connection) }
        let found = unsafe values(PQconninfo(connection)).filter { !$0.value.isEmpty && unknown[$0.key] == nil }
        // The port has a default. Without it, libpq has not got as far: there is no such service.
        guard found["port"] != nil else {
            throw .badAddress(unsafe String(cString: PQerrorMessage(connection)).onOneLine)
        }
        return found
    }

    /// Refuses values that libpq would refuse only when it connects: a worker would try that again and again.
    ///
    /// libpq checks all values before it looks up or connects anything. It checks `target_session_attrs` last, and
    /// ports later, so these two are checked here.
    private func check() throws(PostgresError) {
        for port in list("port") where !port.isEmpty && !(1...65535).contains(Int(port.trimmed()) ?? 0) {
            throw .badAddress("a port is not a number from 1 to 65535")
        }
        if let kind = targetSessionAttributes, !kind.isEmpty, !Self.sessionKinds.contains(kind) {
            throw .badAddress("target_session_attrs is none of \(Self.sessionKinds.joined(separator: ", "))")
        }
        let unknown = ["password": "unknown", "target_session_attrs": "unknown"]
        let refusal = Self.refusal(of: parameters.merging(unknown) { $1 })
        guard refusal == Self.refusal(of: unknown) else { throw .badAddress(refusal.withoutQuotedParts) }
    }

    /// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNECT-TARGET-SESSION-ATTRS
    private static let sessionKinds = ["any", "read-write", "read-only", "primary", "standby", "prefer-standby"]

    private static func refusal(of parameters: [String: String]) -> String {
        guard let connection = unsafe BegunSession.start(parameters) else { return "out of memory" }
        defer { unsafe PQfinish(connection) }
        return unsafe String(cString: PQerrorMessage(connection)).onOneLine
    }

    /// Reads libpq's array, which ends with a null keyword, and frees it.
    private static func values(_ options: UnsafeMutablePointer<PQconninfoOption>?) -> [String: String] {
        var found: [String: String] = [:]
        var next = unsafe options
        while let option = unsafe next?.pointee, let keyword = unsafe option.keyword {
            if let value = unsafe option.val { unsafe found[String(cString: keyword)] = String(cString: value) }
            unsafe next = next?.successor()
        }
        unsafe PQconninfoFree(options)
        return found
    }
}

extension [String] {
    /// Returns no parts if there is only one and it is empty: the list was empty.
    fileprivate var droppingOnlyEmpty: [String] { self == [""] ? [] : self }
}
