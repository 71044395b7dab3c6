/// Finds the first address of a name that accepts a connection, as in RFC 8305 ("Happy Eyeballs"): addresses are tried
/// in order, and while one does not answer, the next one is tried beside it. Belongs to its loop's thread.
final class AddressRace {
    /// How long an address is tried alone (RFC 8305 §5).
    static let headStart = Duration.milliseconds(250)
    /// How long the last address of a family is tried before those that were put last are tried beside it. Who needs
    /// longer to connect is of no use.
    static let headStartOfFamily = Duration.seconds(1)

    private let peer: String
    private let loop: EventLoop
    private var untried: [SocketAddress]
    /// Addresses that are tried when no others are left.
    private var last: [SocketAddress] = []
    private var attempts: [Attempt] = []
    private var nextStart: Timer?
    private var winner: Socket?
    /// The address of the last connection.
    private(set) var connectedAddress: SocketAddress?
    /// The most recent failure of an address.
    private var failure: TransportError
    private var ended: Waiter<Bool>

    /// - Parameter peer: the server in words, for errors.
    init(_ addresses: [SocketAddress], peer: String, loop: EventLoop) {
        untried = addresses
        self.peer = peer
        self.loop = loop
        failure = .unresolved(peer: peer, reason: "it has no address")
        ended = Waiter(loop: loop)
    }

    /// Whether there are addresses that have neither connected nor failed.
    var hasMore: Bool { !untried.isEmpty || !last.isEmpty }

    /// Skips the remaining addresses of the last connection's family.
    func leaveFamily() {
        guard let family = connectedAddress?.family else { return }
        untried.removeAll { $0.family == family }
        last.removeAll { $0.family == family }
    }

    /// Puts the remaining addresses of the last connection's family behind those of the other family.
    func putFamilyLast() {
        guard let family = connectedAddress?.family else { return }
        let all = untried + last
        (untried, last) = (all.filter { $0.family != family }, all.filter { $0.family == family })
    }

    /// Returns the first connection. If that one turns out to be unusable, call this again for the first of the other
    /// addresses.
    func firstConnected(until deadline: ContinuousClock.Instant) async throws(TransportError) -> Socket {
        (winner, ended) = (nil, Waiter(loop: loop))
        startNext()
        let isOver = await ended.wait(until: deadline) ?? false
        stop()
        if let winner { return winner }
        throw isOver ? failure : .timedOut(peer: peer, during: .connecting)
    }

    private func startNext() {
        nextStart?.cancel()
        guard hasMore else {
            if attempts.isEmpty { ended.resume(true) }
            return
        }
        if untried.isEmpty { swap(&untried, &last) }
        do throws(Socket.Failure) {
            try start(untried.removeFirst())
        } catch {
            return failed(error)
        }
        guard hasMore else { return }
        let headStart = untried.isEmpty ? Self.headStartOfFamily : Self.headStart
        nextStart = loop.schedule(after: headStart) { [self] in startNext() }
    }

    private func start(_ address: SocketAddress) throws(Socket.Failure) {
        let socket = try Socket(family: address.family)
        socket.setConnectionOptions()
        try socket.beginConnecting(to: address)
        let attempt = Attempt(address: address, socket: socket, race: self)
        attempts.append(attempt)
        loop.watch(socket.descriptor, for: .writable, handler: attempt)
    }

    private func failed(_ error: Socket.Failure) {
        failure =
            error.isOutOfDescriptors ? .outOfDescriptors(peer: peer) : .unreachable(peer: peer, reason: error.reason)
        startNext()
    }

    fileprivate func hasEnded(_ attempt: Attempt) {
        loop.unwatch(attempt.socket.descriptor)
        attempts.removeAll { $0 === attempt }
        // Another address has connected in the same turn of the loop. This one is as good as untried.
        guard winner == nil else { return untried.append(attempt.address) }
        if let error = attempt.socket.pendingError() { return failed(error) }
        (winner, connectedAddress) = (attempt.socket, attempt.address)
        ended.resume(true)
    }

    /// Gives up the slower attempts. Their addresses have not failed, so they may be tried again.
    private func stop() {
        nextStart?.cancel()
        for attempt in attempts {
            loop.unwatch(attempt.socket.descriptor)
            untried.append(attempt.address)
        }
        attempts = []
    }
}

/// An attempt to connect to one address.
private final class Attempt: ReadinessHandler {
    let address: SocketAddress
    let socket: Socket
    private unowned let race: AddressRace

    init(address: SocketAddress, socket: Socket, race: AddressRace) {
        self.address = address
        self.socket = socket
        self.race = race
    }

    func ready(_ readiness: Interest) { race.hasEnded(self) }
}
