import APNsSimulator
import Cryptography
import Foundation

/// A path for one test; the simulator creates the folder, the test removes it.
struct SimulatorFolder {
    let path: String

    init() {
        path = FileManager.default.temporaryDirectory.appending(path: "apns-\(UUID().uuidString)").path
    }

    func remove() { try? FileManager.default.removeItem(atPath: path) }
}

/// A configuration with a folder of its own.
func configured(_ change: (inout SimulatorConfiguration) -> Void = { _ in }) -> SimulatorConfiguration {
    var configuration = SimulatorConfiguration(folder: SimulatorFolder().path)
    change(&configuration)
    return configuration
}

/// Starts a simulator, runs `body`, stops the simulator and removes its folder. Returns what it counted.
@discardableResult
func withSimulator(
    _ configuration: SimulatorConfiguration = configured(), _ body: @Sendable (Simulator) async throws -> Void
) async throws -> Snapshot {
    let simulator = try await Simulator.start(configuration)
    let outcome: Result<Void, any Error>
    do {
        outcome = .success(try await body(simulator))
    } catch {
        outcome = .failure(error)
    }
    let snapshot = await simulator.stop()
    try FileManager.default.removeItem(atPath: configuration.folder)
    try outcome.get()
    return snapshot
}

/// A provider token. Each part may be wrong.
func providerToken(
    key: PrivateKey, keyID: String = TestAuthority.keyID, teamID: String = TestAuthority.teamID, age: Int = 0,
    algorithm: String = "ES256"
) throws -> String {
    let issuedAt = Int(Date().timeIntervalSince1970) - age
    let header = Base64URL.encode(Array(#"{"alg":"\#(algorithm)","kid":"\#(keyID)"}"#.utf8))
    let claims = Base64URL.encode(Array(#"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#.utf8))
    let signed = header + "." + claims
    return "bearer " + signed + "." + Base64URL.encode(try ES256.signature(of: Array(signed.utf8), with: key))
}

extension Simulator {
    func token(age: Int = 0) throws -> String { try providerToken(key: authority.signingKey, age: age) }

    /// The identity of an app's push certificate.
    func identity(_ topic: String = "com.example.App") throws -> TLSIdentity {
        try authority.clientCertificate(topic: topic).identity
    }
}
