import APNsSimulator
import Foundation
import Testing

@Suite struct `What has been counted` {
    @Test func `can be read while it grows, and adds up`() async throws {
        let snapshot = try await withSimulator { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                for round in 1...5 {
                    let tags = (0..<100).map { _ in client.send() }
                    for tag in tags { _ = await client.answer(to: tag) }
                    let snapshot = await simulator.snapshot()
                    #expect(snapshot.arrived == round * 100)
                    #expect(snapshot.perSecond.reduce(0, +) == snapshot.arrived)
                }
            }
        }
        #expect(snapshot.accepted == 500)
        #expect(snapshot.distinct == 500)
        #expect(snapshot.repeated == 0)
        #expect(snapshot.topics == ["com.example.App": 500])
        #expect(snapshot.firstSecond == snapshot.firstArrival / 1_000_000)
        #expect(snapshot.lastArrival >= snapshot.firstArrival)
    }

    @Test func `is printed as JSON`() throws {
        let json = try JSONEncoder().encode(Snapshot())
        let object = try #require(try JSONSerialization.jsonObject(with: json) as? [String: Any])
        #expect(
            object.keys.sorted() == [
                "abandoned", "accepted", "answered_finally", "arrived", "connections", "distinct", "excess_streams",
                "failed_handshakes", "first_arrival_us", "first_second", "full_handshakes", "last_arrival_us",
                "open_connections",
                "per_second",
                "provider_tokens", "record_complete",
                "refused", "repeated", "resumed_handshakes", "silenced", "topics", "waiting",
            ])
    }
}
