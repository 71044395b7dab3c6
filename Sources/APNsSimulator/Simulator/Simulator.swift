import Cryptography
import FoundationEssentials
import Transport

/// A local APNs. It receives pushes over TLS and HTTP/2, checks them against Apple's rules, answers by its ``Rules``,
/// and counts.
///
///     let simulator = try await Simulator.start(SimulatorConfiguration(folder: "/tmp/apns"))
///     … pushes to 127.0.0.1, port `simulator.port`, trusting `simulator.authority.caFile` …
///     print(await simulator.snapshot().accepted)
///     await simulator.stop()
///
/// It runs on its own event loop, so it does not slow the sender down on a machine with two cores. All methods may be
/// called from any thread at any time.
package struct Simulator: Sendable {
    /// The address and the port it listens on.
    package let host: String
    package let port: UInt16
    /// The port for requests about channels, if configured.
    package let managementPort: UInt16?
    /// The ports of the binary interface and its feedback service, if configured.
    package let binaryPort: UInt16?
    package let feedbackPort: UInt16?
    /// Its certificates and keys, and the means to issue more.
    package let authority: TestAuthority
    private let engine: SimulatorActor

    /// Makes the missing files of the folder, and listens.
    package static func start(_ configuration: SimulatorConfiguration) async throws(SimulatorError) -> Simulator {
        let authority = try TestAuthority(
            folder: configuration.folder,
            serverNames: [configuration.host, ProcessInfo.processInfo.hostName].filter(\.isServerName)
                + configuration.serverNames)
        let engine = try SimulatorActor(configuration, keys: [authority.verificationKey] + configuration.signingKeys)
        do {
            let ports = try await engine.listen(authority)
            return Simulator(
                host: configuration.host, port: ports.port, managementPort: ports.management, binaryPort: ports.binary,
                feedbackPort: ports.feedback, authority: authority, engine: engine)
        } catch {
            await engine.stop()
            engine.loop.shutDownAndWait()
            throw error
        }
    }

    /// Returns the counts so far.
    package func snapshot() async -> Snapshot { await engine.snapshot() }

    /// Applies other rules from the next request on.
    package func use(_ rules: Rules) async { await engine.use(rules) }

    /// Accepts tokens for these bundle IDs over new connections; nil: for any. An open connection keeps its own, as at
    /// Apple.
    package func use(bundleIDs: [String]?) async { await engine.use(bundleIDs: bundleIDs) }

    /// Sends GOAWAY on all connections; new ones are accepted.
    package func sendGoAway(gracefully: Bool = true) async { await engine.sendGoAway(gracefully: gracefully) }

    /// Resets all connections; new ones are accepted.
    package func dropConnections() async { await engine.dropConnections() }

    /// Stops reading and writing on all connections. They stay open, like those of a server that does not react. New
    /// connections are served.
    package func pause() async { await engine.hold(true) }

    /// Resumes after ``pause()``.
    package func resume() async { await engine.hold(false) }

    /// Writes the record so far.
    package func flushRecord() async { await engine.flushRecord() }

    /// Drops all connections, stops listening, completes the record, and ends the loop and its thread. Returns the
    /// final counts.
    @discardableResult
    package func stop() async -> Snapshot {
        let snapshot = await engine.stop()
        engine.loop.shutDownAndWait()
        return snapshot
    }
}
