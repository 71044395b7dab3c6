import CPostgres
import Glibc
import Transport

/// Opens a session without blocking the loop.
///
/// Hosts are tried one after the other, each for its part of the time, and so are the addresses of a name: with all of
/// them in one attempt, libpq would stay with the first that accepts and says nothing (it keeps to `connect_timeout`
/// only where it blocks; manual, PQconnectPoll).
struct Connecting {
    let address: DatabaseAddress
    let applicationName: String
    /// A server that takes no writes will not do.
    let needsWrites: Bool
    /// Where among the hosts to begin.
    let firstHost: Int
    let loop: EventLoop
    let deadline: ContinuousClock.Instant
    let limit: Duration

    /// A session that is ready and idle, which the caller owns, and what its server has said and will say unasked.
    typealias Opened = (session: OpaquePointer, notices: Notices)

    /// Returns a session, what its server says unasked, and the place of its host among all.
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
                guard error.isPassing else { throw error }
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
                guard error.isPassing else { throw error }
                failure = error
            }
        }
        throw failure ?? self.failure("\(host.name) has no address")
    }

    /// When the next of some places has had its part of the time that is left.
    private func part(of deadline: ContinuousClock.Instant, for places: Int) -> ContinuousClock.Instant {
        let part = loop.now.duration(to: deadline) / places
        return loop.now + min(part, address.connectTimeout ?? part)
    }

    private func attempt(
        _ host: DatabaseAddress.Host?, at address: String, until deadline: ContinuousClock.Instant
    ) async throws(PostgresError) -> Opened {
        let parameters = self.address.libpqParameters(
            for: host, at: address, needsWrites: needsWrites, applicationName: applicationName)
        guard let session = unsafe start(parameters) else { throw failure("out of memory") }
        let notices = Notices()
        unsafe notices.receive(from: session)
        // The only way to learn the SQLSTATE of a refusal: libpq keeps it to itself and writes it into the message when
        // verbose.
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

    /// A descriptor that libpq may close in between is never left watched: it is watched anew for each step.
    private func finish(
        _ session: OpaquePointer, with host: DatabaseAddress.Host?, until deadline: ContinuousClock.Instant
    ) async throws(PostgresError) {
        // "Behave as if PQconnectPoll last returned PGRES_POLLING_WRITING" (manual, PQconnectPoll).
        var state = PGRES_POLLING_WRITING
        while state != PGRES_POLLING_OK {
            let interest: Interest = state == PGRES_POLLING_READING ? .readable : .writable
            // Refused at once by the kernel: there is no descriptor to wait for, only an error to fetch.
            let descriptor = unsafe PQsocket(session)
            if descriptor >= 0 {
                let isReady = await ReadinessWait(descriptor, on: loop).wait(for: interest, until: deadline)
                guard isReady else { throw silence(of: host) }
            }
            state = unsafe PQconnectPoll(session)
            if state == PGRES_POLLING_FAILED { throw refusal(unsafe String(cString: PQerrorMessage(session))) }
        }
    }

    private func start(_ parameters: [String: String]) -> OpaquePointer? {
        let pairs = parameters.sorted { $0.key < $1.key }
        var keywords = unsafe pairs.map { unsafe UnsafePointer(strdup($0.key)) }
        var values = unsafe pairs.map { unsafe UnsafePointer(strdup($0.value)) }
        unsafe keywords.append(nil)
        unsafe values.append(nil)
        defer {
            for index in pairs.indices {
                unsafe free(UnsafeMutablePointer(mutating: keywords[index]))
                unsafe free(UnsafeMutablePointer(mutating: values[index]))
            }
        }
        return unsafe PQconnectStartParams(keywords, values, 0)
    }

    /// The numeric addresses of a host; an empty one for a socket.
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

    /// Tells a refusal, which stays one, from a server that is not there or not ready. The message is libpq's own, with
    /// `FATAL:  28P01: password authentication failed …` and further lines where the server gave one.
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
    /// Why a host could not be connected to, without the address, which names all hosts.
    fileprivate var reasonAlone: String {
        if case .cannotConnect(_, let reason) = self { reason } else { "\(self)" }
    }
}
