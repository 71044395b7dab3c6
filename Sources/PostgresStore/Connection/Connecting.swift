import CPostgres
import Glibc
import Transport

/// Opens a session without blocking the loop.
struct Connecting {
    let address: DatabaseAddress
    let applicationName: String
    let loop: EventLoop
    let deadline: ContinuousClock.Instant
    let limit: Duration

    /// Returns a session that is ready and idle, which the caller owns.
    func open() async throws(PostgresError) -> OpaquePointer {
        let parameters = address.libpqParameters(hosts: try await lookUpHosts(), applicationName: applicationName)
        guard let session = unsafe start(parameters) else { throw failure("out of memory") }
        // The only way to learn the SQLSTATE of a refusal: libpq keeps it to itself and writes it into the message when
        // verbose.
        unsafe PQsetErrorVerbosity(session, PQERRORS_VERBOSE)
        do throws(PostgresError) {
            try await unsafe finish(session)
        } catch {
            unsafe PQfinish(session)
            throw error
        }
        unsafe PQsetErrorVerbosity(session, PQERRORS_DEFAULT)
        return unsafe session
    }

    /// A descriptor that libpq may close in between is never left watched: it is watched anew for each step.
    private func finish(_ session: OpaquePointer) async throws(PostgresError) {
        // "Behave as if PQconnectPoll last returned PGRES_POLLING_WRITING" (manual, PQconnectPoll).
        var state = PGRES_POLLING_WRITING
        while state != PGRES_POLLING_OK {
            let interest: Interest = state == PGRES_POLLING_READING ? .readable : .writable
            // Refused at once by the kernel: there is no descriptor to wait for, only an error to fetch.
            let descriptor = unsafe PQsocket(session)
            if descriptor >= 0 {
                let isReady = await ReadinessWait(descriptor, on: loop).wait(for: interest, until: deadline)
                guard isReady else { throw .timedOut("connecting to \(address.description)", after: limit, .notDone) }
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

    /// The addresses of all hosts. Hosts that cannot be resolved are passed over as long as there is another.
    private func lookUpHosts() async throws(PostgresError) -> [(host: DatabaseAddress.Host, address: String)]? {
        guard !address.hasNumericAddresses, !address.hosts.isEmpty else { return nil }
        var found: [(host: DatabaseAddress.Host, address: String)] = []
        var reason = ""
        for host in address.hosts {
            guard !host.isSocket else {
                found.append((host, ""))
                continue
            }
            do throws(TransportError) {
                let port = UInt16(host.port) ?? 5432
                found += try await loop.numericAddresses(of: host.name, port: port, until: deadline).map { (host, $0) }
            } catch {
                reason = "\(host.name): \(Self.reason(of: error))"
            }
        }
        guard !found.isEmpty else { throw failure(reason) }
        return found
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
        guard let (_, state, text) = fatal else { return failure(lines.prefix(2).joined(separator: " ").onOneLine) }
        let states: [SQLState] = [.invalidDatabase, .insufficientPrivilege]
        let isForGood = state.hasPrefix("28") || states.contains(SQLState(String(state)))
        return isForGood ? .refused(address: address.description, reason: String(text)) : failure(String(text))
    }
}
