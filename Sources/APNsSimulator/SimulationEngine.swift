import Cryptography
import Transport

/// The actor on the simulator's loop: the way from any thread to what lives there.
actor SimulationEngine {
    private nonisolated let home: LoopActor
    nonisolated var unownedExecutor: UnownedSerialExecutor { home.unownedExecutor }

    private let simulation: Simulation
    private var listener: Listener?

    init(_ configuration: Simulator.Configuration, keys: [SigningKey]) throws(SimulatorError) {
        let recorder = try configuration.recordFile.map { path throws(SimulatorError) in try Recorder(path: path) }
        let loop = EventLoop(name: configuration.loopName)
        home = LoopActor(loop: loop)
        let tokens = ProviderTokens(keys: keys, updateInterval: configuration.tokenUpdateInterval)
        simulation = Simulation(configuration, loop: loop, tokens: tokens, recorder: recorder)
    }

    /// Listens from now on; answers on which port.
    func listen(_ authority: TestAuthority) throws(SimulatorError) -> UInt16 {
        let configuration = simulation.configuration
        let context: TLSContext
        do {
            // A client may come with a certificate of this authority, or without and show tokens.
            context = try TLSContext.server(
                identity: authority.server, clientCertificates: .asked(issuedBy: authority.certificate))
        } catch {
            throw .credential(path: authority.folder + "/server.pem", error)
        }
        do {
            let listener = try Listener(
                host: configuration.host, port: configuration.port, context: context, loop: simulation.loop,
                refused: { [simulation] _ in simulation.tally.failedHandshakes += 1 },
                accepted: { [simulation] stream in simulation.accept(stream) })
            self.listener = listener
            simulation.flushRecord()
            return listener.port
        } catch {
            throw .transport(error)
        }
    }

    func snapshot() -> Snapshot { simulation.snapshot() }

    func use(_ rules: Rules) { simulation.decider.use(rules, topics: simulation.topics) }

    func sendGoAway(gracefully: Bool) {
        for connection in simulation.connections.values {
            connection.leave(gracefully: gracefully)
            connection.flush()
        }
    }

    func dropConnections() {
        simulation.refreshClock()
        for connection in simulation.connections.values { connection.drop() }
    }

    func hold(_ isHeld: Bool) {
        for connection in simulation.connections.values { connection.hold(isHeld) }
    }

    func flushRecord() { simulation.recorder?.flush() }

    @discardableResult
    func stop() -> Snapshot {
        listener?.close()
        listener = nil
        simulation.end()
        simulation.loop.shutDown()
        return simulation.snapshot()
    }
}
