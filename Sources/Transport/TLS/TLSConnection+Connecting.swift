package import Cryptography

extension TLSConnection {
    /// The time of a connection is not divided below this: a good address would have too little of it.
    private static let leastShare = Duration.seconds(1)

    /// Connects to a server: looks up the name, connects to the first address that answers, performs the TLS handshake,
    /// verifies the server's certificate for `host`, and requires the context's application protocol. Must be called on
    /// `loop`.
    ///
    /// A dead address costs only a moment, since the next one is tried beside it. After one that does not shake hands,
    /// those of the other family are next: the fault usually lies on the way.
    /// - Parameters:
    ///   - sessions: the sessions that the connection may resume; its own sessions are added to them.
    ///   - rules: the addresses of the server that may be connected to; nil for all.
    ///   - doubts: the addresses that are tried last.
    package static func connect(
        host: String, port: UInt16, context: TLSContext, loop: EventLoop, deadline: ContinuousClock.Instant,
        resuming sessions: ResumableSessions? = nil, rules: AddressRules? = nil,
        doubts: AddressDoubts = AddressDoubts(), noteFailure: (IPAddress) -> Void = { _ in }
    ) async throws(TransportError) -> TLSConnection {
        let found = try await loop.addresses(of: host, port: port, admittedBy: rules, until: deadline)
        let peer = host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        return try await connect(
            to: doubts.ordered(found, now: loop.now), of: host, peer: peer, context: context, loop: loop,
            deadline: deadline, resuming: sessions, noteFailure: noteFailure)
    }

    /// The same with the addresses of the name, in the order in which to try them.
    static func connect(
        to addresses: [SocketAddress], of host: String, peer: String, context: TLSContext, loop: EventLoop,
        deadline: ContinuousClock.Instant, resuming sessions: ResumableSessions? = nil,
        noteFailure: (IPAddress) -> Void = { _ in }
    ) async throws(TransportError) -> TLSConnection {
        let race = AddressRace(addresses, peer: peer, loop: loop)
        var wrongServer: TransportError?
        var failure: TransportError?
        while true {
            let socket: Socket
            do throws(TransportError) {
                socket = try await race.firstConnected(until: deadline)
            } catch {
                throw wrongServer ?? failure ?? error
            }
            do throws(TransportError) {
                return try await secure(
                    socket, to: race.connectedAddress, host: host, peer: peer, context: context, loop: loop,
                    deadline: loop.now + share(of: loop.now.duration(to: deadline), isLast: !race.hasMore),
                    resuming: sessions)
            } catch {
                guard error.isAboutServer || error.isAboutOneAddress else { throw wrongServer ?? error }
                let address = race.connectedAddress?.ip
                if let address { noteFailure(address) }
                if error.isAboutServer {
                    // Another address of the family would lead to the same wrong server. A middlebox may intercept only
                    // one family.
                    wrongServer = wrongServer ?? error
                    race.leaveFamily()
                } else {
                    failure = address.map(error.naming) ?? error
                    race.putFamilyLast()
                }
                guard race.hasMore, loop.now + leastShare <= deadline else { throw wrongServer ?? failure ?? error }
            }
        }
    }

    /// How long a handshake may take, so that there is time for another address.
    private static func share(of time: Duration, isLast: Bool) -> Duration {
        isLast || time < leastShare * 2 ? time : time / 2
    }

    private static func secure(
        _ socket: Socket, to address: SocketAddress?, host: String, peer: String, context: TLSContext, loop: EventLoop,
        deadline: ContinuousClock.Instant, resuming sessions: ResumableSessions?
    ) async throws(TransportError) -> TLSConnection {
        let connection: TLSConnection
        do {
            connection = try TLSConnection(
                socket: socket, address: address?.ip, context: context, host: host, peer: peer, loop: loop,
                resuming: sessions)
        } catch {
            throw .tls(peer: peer, error)
        }
        let waiter = Waiter<TransportError?>(loop: loop)
        connection.handshake(until: deadline) { waiter.resume(.some($0)) }
        // The handshake has its own deadline and always calls back.
        if let error = await waiter.wait(until: .now + .seconds(86_400)) ?? nil { throw error }
        if let error = connection.insist(on: context.applicationProtocol) { throw error }
        return connection
    }

    /// Closes the connection and returns an error if ALPN did not choose the required protocol (RFC 9113 §3.2). Does
    /// nothing if none is required.
    func insist(on applicationProtocol: String?) -> TransportError? {
        guard let applicationProtocol, negotiatedProtocol != applicationProtocol else { return nil }
        close()
        return .wrongProtocol(peer: peer, wanted: applicationProtocol, got: negotiatedProtocol)
    }
}

extension TransportError {
    /// Returns this error with the address whose handshake failed beside the name.
    fileprivate func naming(_ address: IPAddress) -> TransportError {
        let place = { (peer: String) in peer.contains("\(address)") ? peer : "\(peer) (\(address))" }
        return switch self {
        case .unreachable(let peer, let reason): .unreachable(peer: place(peer), reason: reason)
        case .timedOut(let peer, let step): .timedOut(peer: place(peer), during: step)
        default: self
        }
    }

    /// Whether another address of the same name may work.
    fileprivate var isAboutOneAddress: Bool {
        switch self {
        case .unreachable, .timedOut, .lost: true
        default: false
        }
    }

    /// Whether a server other than the wanted one has answered.
    fileprivate var isAboutServer: Bool {
        switch self {
        case .tls(_, .untrusted), .wrongProtocol: true
        default: false
        }
    }
}
