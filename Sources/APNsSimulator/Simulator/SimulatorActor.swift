import Cryptography
import Transport

/// The actor on the simulator's loop. Through it, any thread can reach the objects that live there.
actor SimulatorActor {
    private nonisolated let home: LoopActor
    /// The loop of the simulator.
    nonisolated var loop: EventLoop { home.loop }
    nonisolated var unownedExecutor: UnownedSerialExecutor { home.unownedExecutor }

    private let simulation: Simulation
    private let reception: Reception
    private var listeners: [TLSListener] = []

    init(_ configuration: SimulatorConfiguration, keys: [SigningKey]) throws(SimulatorError) {
        let recorder = try configuration.recordFile.map { path throws(SimulatorError) in try Recorder(path: path) }
        let loop = EventLoop(name: configuration.loopName)
        home = LoopActor(loop: loop)
        let tokens = ProviderTokens(keys: keys, updateInterval: configuration.tokenUpdateInterval)
        simulation = Simulation(configuration, loop: loop, tokens: tokens, recorder: recorder)
        reception = Reception(simulation: simulation)
    }

    /// The ports on which a simulator listens.
    struct Ports {
        var port: UInt16
        var management: UInt16?
        var binary: UInt16?
        var feedback: UInt16?
    }

    /// Starts listening; returns the ports.
    func listen(_ authority: TestAuthority) throws(SimulatorError) -> Ports {
        let configuration = simulation.configuration
        // A client may have a certificate of this authority. A client without one shows tokens.
        let context = try makeContext(authority, .asked(issuedBy: authority.certificate), applicationProtocol: "h2")
        let port = try listen(on: configuration.port, context) { [reception] in reception.acceptPushes($0) }
        let managementPort = try configuration.managementPort.map { (port) throws(SimulatorError) in
            try listen(on: port, context) { [reception] in reception.acceptChannels($0) }
        }
        let binary = try makeContext(authority, .required(issuedBy: authority.certificate), applicationProtocol: nil)
        let binaryPort = try configuration.binaryPort.map { (port) throws(SimulatorError) in
            try listen(on: port, binary) { [reception] in reception.acceptBinary($0) }
        }
        let feedbackPort = try configuration.feedbackPort.map { (port) throws(SimulatorError) in
            try listen(on: port, binary) { [reception] in reception.acceptFeedback($0) }
        }
        simulation.flushRecord()
        return Ports(port: port, management: managementPort, binary: binaryPort, feedback: feedbackPort)
    }

    private func makeContext(
        _ authority: TestAuthority, _ clients: TLSContext.ClientCertificates, applicationProtocol: String?
    ) throws(SimulatorError) -> TLSContext {
        do {
            return try TLSContext.server(
                identity: authority.server, clientCertificates: clients, applicationProtocol: applicationProtocol)
        } catch {
            throw .credential(path: authority.folder + "/server.pem", error)
        }
    }

    private func listen(
        on port: UInt16, _ context: TLSContext, accepted: @escaping (TLSConnection) -> Void
    ) throws(SimulatorError) -> UInt16 {
        do {
            let listener = try TLSListener(
                host: simulation.configuration.host, port: port, context: context, loop: simulation.loop,
                refused: { [reception] _ in reception.refused() },
                accepted: { [reception] stream in
                    reception.shookHands(with: stream)
                    accepted(stream)
                })
            listeners.append(listener)
            return listener.port
        } catch {
            throw .transport(error)
        }
    }

    func snapshot() -> Snapshot { simulation.snapshot() }

    func use(bundleIDs: [String]?) { simulation.use(bundleIDs: bundleIDs) }

    func use(_ rules: Rules) { simulation.decider.use(rules, topics: simulation.topics) }

    func sendGoAway(gracefully: Bool) {
        for session in pushSessions {
            session.leave(gracefully: gracefully)
            session.flush()
        }
    }

    func dropConnections() { simulation.dropConnections() }

    func hold(_ isHeld: Bool) {
        for session in pushSessions { session.hold(isHeld) }
    }

    private var pushSessions: [PushSession] { simulation.sessions.values.compactMap { $0 as? PushSession } }

    func flushRecord() { simulation.recorder?.flush() }

    @discardableResult
    func stop() -> Snapshot {
        for listener in listeners { listener.close() }
        listeners = []
        simulation.end()
        return simulation.snapshot()
    }
}
