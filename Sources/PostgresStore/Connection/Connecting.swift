import CPostgres
import Transport

/// Opens a session without blocking the loop.
///
/// Tries the hosts one after the other, each for its part of the time, and likewise the addresses of a name. If libpq
/// got all of them in one attempt, it would stay with the first that accepts the connection and then stays silent: it
/// observes `connect_timeout` only where it blocks (manual, PQconnectPoll).
struct Connecting {
    let address: DatabaseAddress
    let applicationName: String
    /// Whether to refuse a server that takes no writes.
    let needsWrites: Bool
    /// The position of the host to try first.
    let firstHost: Int
    let loop: EventLoop
    let deadline: ContinuousClock.Instant
    let limit: Duration

    /// A session that is ready and idle, which the caller owns, and the notices of its server.
    typealias Opened = (session: OpaquePointer, notices: Notices)

    /// Returns a session, the notices of its server, and the position of its host.
    func open() async throws(PostgresError) -> (session: OpaquePointer, notices: Notices, host: Int) {
        let hosts = address.hosts
        guard !hosts.isEmpty else {
            let (session, notices) = try await unsafe attempt(nil, at: "", until: deadline)
            return unsafe (session, notices, 0)
        }
        var failures: [PostgresError] = []
        for tried in hosts.indices {
            let place = (firstHost + tried) % hosts.count
            do throws(PostgresError) {
                let (session, notices) = try await unsafe open(
                    hosts[place], until: part(of: deadline, for: hosts.count - tried))
                return unsafe (session, notices, place)
            } catch {
                guard error.isTransient else { throw error }
                failures.append(error)
            }
        }
        throw failures.count == 1 ? failures[0] : failure(failures.map(\.reasonAlone).joined(separator: "; "))
    }

    private func open(
        _ host: DatabaseAddress.Host, until deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> Opened {
        let addresses = try await lookUp(host, until: deadline)
        var failure: PostgresError?
        for (tried, address) in addresses.enumerated() {
            do throws(PostgresError) {
                return try await unsafe attempt(
                    host, at: address, until: part(of: deadline, for: addresses.count - tried))
            } catch {
                guard error.isTransient else { throw error }
                failure = error
            }
        }
        throw failure ?? self.failure("\(host.name) has no address")
    }

    /// The deadline for the next of `places` that share the remaining time.
    private func part(of deadline: ContinuousClock.Instant, for places: Int) -> ContinuousClock.Instant {
        let part = loop.now.duration(to: deadline) / places
        return loop.now + min(part, address.connectTimeout ?? part)
    }

    private func attempt(
        _ host: DatabaseAddress.Host?, at address: String, until deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> Opened {
        let parameters = self.address.libpqParameters(
            for: host, at: address, needsWrites: needsWrites, applicationName: applicationName)
        guard let session = unsafe BegunSession.start(parameters) else { throw failure("out of memory") }
        let notices = Notices()
        unsafe notices.receive(from: session)
        // A verbose message is the only way to learn the SQLSTATE of a refusal: libpq has no function that returns it.
        unsafe PQsetErrorVerbosity(session, PQERRORS_VERBOSE)
        do throws(PostgresError) {
            try await unsafe finish(session, with: host, until: deadline)
        } catch {
            withExtendedLifetime(notices) { unsafe PQfinish(session) }
            throw error
        }
        unsafe PQsetErrorVerbosity(session, PQERRORS_DEFAULT)
        return unsafe (session, notices)
    }

    /// Watches the descriptor anew for each step, because libpq may close it between steps.
    private func finish(
        _ session: OpaquePointer, with host: DatabaseAddress.Host?, until deadline: ContinuousClock.Instant
    ) async throws(PostgresError) {
        // "Behave as if PQconnectPoll last returned PGRES_POLLING_WRITING" (manual, PQconnectPoll).
        var state = PGRES_POLLING_WRITING
        while state != PGRES_POLLING_OK {
            let interest: Interest = state == PGRES_POLLING_READING ? .readable : .writable
            // If the kernel refused the connection at once, there is no descriptor to wait for, only an error to read.
            let descriptor = unsafe PQsocket(session)
            if descriptor >= 0 {
                let isReady = await ReadinessWait(descriptor, on: loop).wait(for: interest, until: deadline)
                guard isReady else { throw silence(of: host) }
            }
            state = unsafe PQconnectPoll(session)
            if state == PGRES_POLLING_FAILED { throw refusal(unsafe String(cString: PQerrorMessage(session))) }
        }
    }

    /// The numeric addresses of a host; an empty address for a socket.
    private func lookUp(
        _ host: DatabaseAddress.Host, until deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> [String] {
        guard host.address.isEmpty, !host.isSocket else { return [host.address] }
        do throws(TransportError) {
            return try await loop.numericAddresses(of: host.name, port: UInt16(host.port) ?? 5432, until: deadline)
        } catch {
            throw failure("\(host.name): \(Self.reason(of: error))")
        }
    }

    private func silence(of host: DatabaseAddress.Host?) -> PostgresError {
        guard let host, address.hosts.count > 1 else {
            return .timedOut("connecting to \(address.description)", after: limit, .notDone)
        }
        return failure("\(host.name) has not answered in time")
    }

    private static func reason(of error: TransportError) -> String {
        switch error {
        case .unresolved(_, let reason): reason
        case .timedOut: "its name was not looked up in time"
        default: "\(error)"
        }
    }

    private func failure(_ reason: String) -> PostgresError {
        .cannotConnect(address: address.description, reason: reason)
    }

    /// Distinguishes a permanent refusal from a server that cannot be reached or is not ready. The message is libpq's
    /// own, with `FATAL:  28P01: password authentication failed …` and further lines if the server sent an error.
    private func refusal(_ message: String) -> PostgresError {
        let lines = message.split(separator: "\n").map(String.init)
        let fatal = lines.compactMap { $0.firstMatch(of: /:  ([0-9A-Z]{5}): (.+)/)?.output }.last
        guard let (_, state, text) = fatal else {
            return failure(lines.prefix(2).map(\.onOneLine).joined(separator: ". "))
        }
        let states: [SQLState] = [.invalidDatabase, .insufficientPrivilege]
        let isForGood = state.hasPrefix("28") || states.contains(SQLState(String(state)))
        return isForGood ? .refused(address: address.description, reason: String(text)) : failure(String(text))
    }
}

extension PostgresError {
    /// Why the connection to a host failed, without the address, which names all hosts.
    fileprivate var reasonAlone: String {
        if case .cannotConnect(_, let reason) = self { reason } else { "\(self)" }
    }
}
