/// A local APNs: takes pushes over TLS and HTTP/2, holds them against Apple's rules, answers as its ``Rules`` say, and
/// counts.
///
///     let simulator = try await Simulator.start(SimulatorConfiguration(folder: "/tmp/apns"))
///     … pushes to 127.0.0.1, port `simulator.port`, trusting `simulator.authority.caFile` …
///     print(await simulator.snapshot().accepted)
///     await simulator.stop()
///
/// It runs on an event loop of its own, so that on a machine with two cores it takes nothing from the one that sends.
/// Everything may be called from anywhere at any time.
package struct Simulator: Sendable {
    /// The address and the port it listens on.
    package let host: String
    package let port: UInt16
    /// Where it takes requests about channels, if that was asked for.
    package let managementPort: UInt16?
    /// Where it speaks the binary interface and its feedback service, if that was asked for.
    package let binaryPort: UInt16?
    package let feedbackPort: UInt16?
    /// Its certificates and keys, and the means to issue more.
    package let authority: TestAuthority
    private let engine: SimulatorActor

    /// Makes what the folder lacks, and listens.
    package static func start(_ configuration: SimulatorConfiguration) async throws(SimulatorError) -> Simulator {
        let authority = try TestAuthority(folder: configuration.folder)
        let engine = try SimulatorActor(configuration, keys: [authority.verificationKey] + configuration.signingKeys)
        do {
            let ports = try await engine.listen(authority)
            return Simulator(
                host: configuration.host, port: ports.port, managementPort: ports.management, binaryPort: ports.binary,
                feedbackPort: ports.feedback, authority: authority, engine: engine)
        } catch {
            await engine.stop()
            throw error
        }
    }

    /// What has been counted up to now.
    package func snapshot() async -> Snapshot { await engine.snapshot() }

    /// Takes other rules from the next request on.
    package func use(_ rules: Rules) async { await engine.use(rules) }

    /// Sends GOAWAY on all connections; new ones are taken.
    package func sendGoAway(gracefully: Bool = true) async { await engine.sendGoAway(gracefully: gracefully) }

    /// Drops all connections without a word; new ones are taken.
    package func dropConnections() async { await engine.dropConnections() }

    /// Stops reading and writing on all connections, which stay open: a server that is there and does not react.
    /// Connections taken from now on are served.
    package func pause() async { await engine.hold(true) }

    /// Goes on where ``pause()`` stopped.
    package func resume() async { await engine.hold(false) }

    /// Writes the record up to now.
    package func flushRecord() async { await engine.flushRecord() }

    /// Drops all connections, listens no more, completes the record and ends the loop; what was counted by then.
    @discardableResult
    package func stop() async -> Snapshot { await engine.stop() }
}
