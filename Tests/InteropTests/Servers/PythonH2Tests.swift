import APNs
import Foundation
import Testing

/// Python's h2, in a server of this project that uses SETTINGS and streams as few servers do (`Python/h2_server.py`).
/// h2 checks every frame against the protocol, and the server compares every body with what was sent.
@Suite(.interop, .serialized, .timeLimit(.minutes(10)))
struct `A gateway and Python's h2` {
    /// The server's input.
    struct Conduct: Encodable, Sendable {
        /// SETTINGS by their number (RFC 9113 §6.5.2): 1 HEADER_TABLE_SIZE, 3 MAX_CONCURRENT_STREAMS, 4
        /// INITIAL_WINDOW_SIZE.
        var settings: [Int: Int]?
        var changes: [[Int: Int]]?
        var every: Int?
        var padding: Int?
        var refuse: Int?
        var goAway: Int?
        var dead: Int?
        var body = 40
        var port: UInt16 = 0
        var certificate = ""

        enum CodingKeys: String, CodingKey {
            case settings, changes, every, padding, refuse, dead, body, port, certificate
            case goAway = "go_away"
        }
    }

    /// The server's output at its end.
    struct Summary: Decodable {
        let arrived: Int
        let distinct: Int
        let refused: Int
        let dead: Int
        let connections: Int
        let goAways: Int
        let errors: [String]

        enum CodingKeys: String, CodingKey {
            case arrived, distinct, refused, dead, connections, errors
            case goAways = "go_aways"
        }
    }

    @Test(arguments: [
        Conduct(settings: [4: 100]),
        Conduct(settings: [3: 1, 4: 1000]),
        Conduct(settings: [1: 0]),
        Conduct(padding: 200),
    ])
    func `get every body across`(conduct: Conduct) async throws {
        for payloadBytes in Exchange.payloadSizes {
            var conduct = conduct
            conduct.body = payloadBytes
            let (outcome, summary) = try await exchange(count: 500, conduct)
            #expect(outcome == .init(tally: ["accepted": 500], untouchedCount: 0), "\(conduct)")
            #expect(summary.connections <= 4)
        }
    }

    @Test func `agree on limits of streams that change`() async throws {
        let conduct = Conduct(settings: [3: 50], changes: [[3: 5], [3: 100], [3: 1], [3: 30]], every: 40)
        let (outcome, _) = try await exchange(count: 1000, conduct)
        #expect(outcome == .init(tally: ["accepted": 1000], untouchedCount: 0))
    }

    @Test func `agree on windows that change while bodies wait for them`() async throws {
        var conduct = Conduct(settings: [4: 3000], changes: [[4: 10], [4: 60_000], [4: 1000]], every: 30)
        conduct.body = 5120
        let (outcome, _) = try await exchange(count: 1000, conduct)
        #expect(outcome == .init(tally: ["accepted": 1000], untouchedCount: 0))
    }

    @Test func `agree on header tables that change`() async throws {
        let conduct = Conduct(changes: [[1: 0], [1: 4096], [1: 100], [1: 65_536]], every: 50)
        let (outcome, _) = try await exchange(count: 1000, conduct)
        #expect(outcome == .init(tally: ["accepted": 1000], untouchedCount: 0))
    }

    @Test func `agree on refused streams`() async throws {
        let (outcome, summary) = try await exchange(count: 1000, Conduct(refuse: 17, body: 1024))
        #expect(outcome.tally == ["accepted": 1000])
        #expect(summary.refused > 50)
        #expect(outcome.untouchedCount == summary.refused)
    }

    @Test func `lose and repeat nothing over many GOAWAYs`() async throws {
        let (outcome, summary) = try await exchange(count: 1500, Conduct(settings: [3: 100], goAway: 100, body: 1024))
        #expect(outcome.tally == ["accepted": 1500])
        #expect(summary.goAways >= 10)
        #expect(summary.connections >= summary.goAways)
    }

    @Test(arguments: [nil, 1, 255]) func `agree on refusals with and without padding`(padding: Int?) async throws {
        let (outcome, summary) = try await exchange(count: 1000, Conduct(padding: padding, dead: 7))
        #expect(outcome.tally == ["accepted": 1000 - summary.dead, "410 Unregistered": summary.dead])
        #expect(summary.dead == 1000 / 7)
    }

    @Test func `agree with everything at once`() async throws {
        let changes = [[3: 20, 4: 500], [1: 0, 4: 20_000], [1: 4096, 3: 200], [3: 7]]
        let conduct = Conduct(
            settings: [3: 30, 4: 2000], changes: changes, every: 35, padding: 30, refuse: 23, goAway: 400, dead: 9,
            body: 4096)
        let (outcome, summary) = try await exchange(count: 2000, conduct)
        #expect(outcome.tally == ["accepted": 2000 - summary.dead, "410 Unregistered": summary.dead])
    }

    /// Sends the pushes. Each must be processed once, and h2 must report no error.
    private func exchange(count: Int, _ conduct: Conduct) async throws -> (Exchange.Outcome, Summary) {
        let server = try await ForeignServer.start(ForeignProgram(python: "h2_server.py")) { site in
            var conduct = conduct
            conduct.port = site.port
            conduct.certificate = site.identity
            return [String(decoding: try JSONEncoder().encode(conduct), as: UTF8.self)]
        }
        let outcome = try await Exchange(count: count, payloadBytes: conduct.body).run(to: server.endpoint)
        await server.stop()
        let summary = try JSONDecoder().decode(Summary.self, from: Data(server.read("output").utf8))
        #expect(summary.errors == [])
        #expect(summary.arrived == count)
        #expect(summary.distinct == count)
        return (outcome, summary)
    }
}
