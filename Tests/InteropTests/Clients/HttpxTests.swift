import APNsSimulator
import Foundation
import Testing

/// httpx, an HTTP client in Python that uses h2 for HTTP/2.
@Suite(.interop, .timeLimit(.minutes(10)))
struct `httpx and the simulator` {
    /// The input of `Python/httpx_client.py`.
    private struct Order: Encodable {
        var port: UInt16
        var ca: String
        var certificate = ""
        var authorization = ""
        var count = 1000
        var refused = OwnSimulator.refusals.map { $0.prefix.padding(toLength: 64, withPad: "a", startingAt: 0) }
    }

    private static let answers = [
        "HTTP/2 200 ": 1000, #"HTTP/2 400 {"reason":"BadDeviceToken"}"#: 1,
        #"HTTP/2 410 {"reason":"Unregistered","timestamp":1458114061260}"#: 1,
        #"HTTP/2 429 {"reason":"TooManyRequests"}"#: 1, #"HTTP/2 503 {"reason":"ServiceUnavailable"}"#: 1,
    ]

    @Test func `agree on pushes with a token`() async throws {
        try await exchange { own, order in order.authorization = try own.authorization() }
    }

    @Test func `agree on pushes with a certificate`() async throws {
        try await exchange { own, order in order.certificate = try own.certificate() }
    }

    private func exchange(_ authenticate: (OwnSimulator, inout Order) throws -> Void) async throws {
        let own = try await OwnSimulator.start()
        var order = Order(port: own.simulator.port, ca: own.simulator.authority.caFile)
        try authenticate(own, &order)
        let output = try await ForeignProgram(python: "httpx_client.py")
            .run([String(decoding: try JSONEncoder().encode(order), as: UTF8.self)])
        let counted = await own.simulator.stop()
        #expect(try JSONDecoder().decode([String: Int].self, from: Data(output.utf8)) == Self.answers)
        #expect(counted.arrived == 1004)
        #expect(counted.repeated == 0)
        #expect(counted.connections == 1)
    }
}
