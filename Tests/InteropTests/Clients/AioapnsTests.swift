import APNsSimulator
import Foundation
import QueueCore
import Testing

/// aioapns, a client of APNs in Python. It expects the simulator to behave like Apple's servers.
@Suite(.interop, .timeLimit(.minutes(10)))
struct `aioapns and the simulator` {
    /// The input of `Python/aioapns_client.py`.
    private struct Order: Encodable {
        var port: UInt16
        var ca: String
        var credential: [String: String]
        var sandbox: Bool
        var count = 1000
        var refused = OwnSimulator.refusals.map { $0.prefix.padding(toLength: 64, withPad: "a", startingAt: 0) }
    }

    private static let results = [
        "200": 1000, "400 BadDeviceToken None": 1, "410 Unregistered 1458114061260": 1, "429 TooManyRequests None": 1,
        "503 ServiceUnavailable None": 1,
    ]

    @Test(arguments: [Environment.production, .sandbox])
    func `agree on pushes with a signing key`(environment: Environment) async throws {
        try await exchange(environment) { own in
            let authority = own.simulator.authority
            return [
                "key": try String(contentsOfFile: authority.signingKeyFile, encoding: .utf8),
                "key_id": TestAuthority.keyID, "team_id": TestAuthority.teamID, "topic": "com.example.App",
            ]
        }
    }

    /// aioapns takes the topic from the certificate.
    @Test(arguments: [Environment.production, .sandbox])
    func `agree on pushes with a certificate`(environment: Environment) async throws {
        try await exchange(environment) { own in ["client_cert": try own.certificate()] }
    }

    private func exchange(
        _ environment: Environment, credential: (OwnSimulator) throws -> [String: String]
    ) async throws {
        let own = try await OwnSimulator.start { $0.environment = environment }
        let order = Order(
            port: own.simulator.port, ca: own.simulator.authority.caFile, credential: try credential(own),
            sandbox: environment == .sandbox)
        let output = try await ForeignProgram(python: "aioapns_client.py")
            .run([String(decoding: try JSONEncoder().encode(order), as: UTF8.self)])
        let counted = await own.simulator.stop()
        let results = try JSONDecoder().decode([String: Int].self, from: Data(output.utf8))
        #expect(results == Self.results)
        #expect(counted.arrived == 1004)
        #expect(counted.repeated == 0)
        #expect(counted.connections == 1)
    }
}
