import APNsSimulator
import Foundation
import QueueCore
import TestSupport
import Testing

/// Tests the audit, because the other tests rely on its counts.
@Suite struct `An audit` {
    private static let one = APNsID(root: 7, key: 1)
    private static let two = APNsID(root: 7, key: 2)
    private static let delivered = [one: [Outcome.delivered], two: [Outcome.delivered]]
    private static let tokens: [Int64: [UInt8]] = [1: [1], 2: [2], 3: [3]].mapValues {
        $0 + [UInt8](repeating: 0, count: 31)
    }
    private static let payload = Array(#"{"aps":{"alert":"Grüße"}}"#.utf8)

    /// Lines of a simulator's record: the time in milliseconds, the push, and the status of an answer, or nil for an
    /// arrival.
    /// - Parameters:
    ///   - tokens: the tokens by device.
    ///   - payload: the payload of all pushes.
    private func record(
        _ events: [(Int, APNsID, Int?)], connectionEndsAt end: Int = 10_000, tokens: [Int64: [UInt8]] = Self.tokens,
        payload: [UInt8] = Self.payload
    ) throws -> PushRecord {
        let lines = events.map { at, id, status in
            let digest = (token: RecordDigest.ofToken(tokens[id.key] ?? []), payload: RecordDigest.ofPayload(payload))
            let event =
                status.map { #""answered","status":\#($0),"reason":"","payload_digest":"\#(digest.payload)""# }
                ?? #""arrived","token_digest":"\#(digest.token)""#
            return #"{"at":\#(at * 1000),"event":\#(event),"apns_id":"\#(id)","connection":1}"#
        }
        let ends = [#"{"at":\#(end * 1000),"event":"disconnected","connection":1}"#]
        let folder = try TemporaryFolder()
        return try PushRecord(files: [try folder.write((lines + ends).joined(separator: "\n"), to: "record")])
    }

    private func audit(
        _ record: PushRecord, _ ends: [APNsID: [Outcome]], leases: [LapsedLease] = [], grace: Duration? = nil,
        _ expectation: Audit.Expectation = .init()
    ) -> Audit {
        Audit(
            record: record, outcomes: RecordedOutcomes(ends: ends, recipients: [Self.one, Self.two]),
            messages: SentMessages(payloads: [7: Self.payload], tokens: Self.tokens), leases: leases,
            lease: .seconds(3),
            grace: grace, expectation: expectation)
    }

    private static let both: [(Int, APNsID, Int?)] = [(1, one, nil), (2, two, nil), (3, one, 200), (4, two, 200)]

    @Test func `finds nothing where all is well`() throws {
        let audit = audit(try record(Self.both), Self.delivered)
        #expect(audit.sent == 2)
        #expect(audit.recorded == 2)
        #expect(audit.lost == 0)
        #expect(audit.repeated == 0)
        #expect(audit.bound == 0)
    }

    @Test(arguments: [[], [Outcome.delivered, .delivered], [.expired], [.rejected(Reason(code: 1))]])
    func `finds who has no outcome, two, or the wrong one`(ends: [Outcome]) throws {
        let audit = audit(try record(Self.both), [Self.one: [.delivered], Self.two: ends])
        #expect(audit.lost == 1)
    }

    @Test func `takes unknown for an answer only where a lost lease left somebody uncertain`() throws {
        let ends = [Self.one: [Outcome.delivered], Self.two: [.unknown]]
        let expectation = Audit.Expectation().ending(.unknown)
        #expect(audit(try record(Self.both), ends, expectation).lost == 1)
        let lease = LapsedLease(deadline: 8_000_000, uncertain: [Self.two])
        #expect(audit(try record(Self.both), ends, leases: [lease], expectation).lost == 0)
        let unexplained = audit(try record(Self.both), ends, leases: [lease])
        #expect(unexplained.findings == ["1 ended as unknown, such as \(Self.two)"])
    }

    @Test(arguments: [Outcome.suppressed, .expired, .cancelled, .unknown, .failed(Reason(code: 1))])
    func `takes an end without an answer only where the trial makes such ends`(end: Outcome) throws {
        let ends = [Self.one: [Outcome.delivered], Self.two: [end]]
        let record = try record([(1, Self.one, nil), (3, Self.one, 200)])
        #expect(audit(record, ends).lost == 1)
        let expectation = Audit.Expectation().ending(try #require(end.kind))
        #expect(audit(record, ends, expectation).lost == 0)
    }

    @Test func `finds who is said to be delivered and never arrived`() throws {
        let audit = audit(try record([(1, Self.one, nil), (2, Self.one, 200)]), Self.delivered)
        #expect(audit.lost == 1)
    }

    @Test func `finds a push that went to another device than its own`() throws {
        var tokens = Self.tokens
        tokens[2] = tokens[3]
        let audit = audit(try record(Self.both, tokens: tokens), Self.delivered)
        #expect(audit.lost == 1)
        #expect(audit.findings == ["1 sent to another device than its own, such as \(Self.two)"])
    }

    @Test func `finds pushes with another payload than theirs`() throws {
        let altered = Array(#"{"aps":{"alert":"Grüsse"}}"#.utf8)
        let audit = audit(try record(Self.both, payload: altered), Self.delivered)
        #expect(audit.lost == 2)
        #expect(audit.findings.allSatisfy { $0.hasPrefix("2 sent with another payload") })
    }

    @Test func `tells a repeat from a retry`() throws {
        let again: [(Int, APNsID, Int?)] = [
            (10, Self.one, nil), (11, Self.one, 503), (12, Self.one, nil), (13, Self.one, 200), (14, Self.one, nil),
            (15, Self.one, 429), (16, Self.one, nil), (17, Self.one, 200), (20, Self.two, nil), (21, Self.two, nil),
            (22, Self.two, 200),
        ]
        #expect(audit(try record(again), Self.delivered).repeated == 2)
    }

    @Test func `counts the time to recover from the end of the fault that cost the lease`() throws {
        let events: [(Int, APNsID, Int?)] = [
            (1000, Self.one, nil), (1100, Self.one, 200), (2000, Self.two, nil), (2100, Self.two, 200),
            (20_000, Self.two, nil), (20_500, Self.two, 200),
        ]
        // The lease of 3 s was last renewed at 2 s.
        let lease = LapsedLease(deadline: 5_000_000, uncertain: [Self.two])
        var faults = Audit.Expectation()
        #expect(audit(try record(events), Self.delivered, leases: [lease], faults).recovered == 18.5)
        faults.faultEnds = [1_500_000, 12_000_000, 30_000_000]
        let late = audit(try record(events), Self.delivered, leases: [lease], faults)
        #expect(late.recovered == 8.5)
        #expect(late.recoveryLimit == 39)
    }

    @Test func `bounds repeats by what a lost lease had sent since its last flush`() throws {
        let events: [(Int, APNsID, Int?)] = [
            // The lease of 3 s ended at 8 s, so it was last flushed at 5 s. By then the first answer had long been
            // known.
            (1000, Self.one, nil), (1100, Self.one, 200), (5100, Self.two, nil), (5200, Self.two, 200),
            (9000, Self.one, nil), (9100, Self.one, 200), (9200, Self.two, nil), (9300, Self.two, 200),
        ]
        let lease = LapsedLease(deadline: 8_000_000, uncertain: [Self.one, Self.two])
        let audit = audit(try record(events), Self.delivered, leases: [lease])
        #expect(audit.repeated == 2)
        #expect(audit.bound == 1)
    }

    @Test func `takes an answer over the binary interface for known when the grace has passed, or an error has come`()
        throws
    {
        let lease = LapsedLease(deadline: 10_500_000, uncertain: [Self.one, Self.two])
        // The pushes were accepted at 3.1 s and 4.1 s, and so known at 5.1 s and 6.1 s. The last flush, at 7.5 s, may
        // not contain what came after 4.5 s.
        let taken: [(Int, APNsID, Int?)] = [
            (3100, Self.one, nil), (3100, Self.one, 200), (4100, Self.two, nil), (4100, Self.two, 200),
        ]
        #expect(audit(try record(taken), Self.delivered, leases: [lease]).bound == 0)
        #expect(audit(try record(taken), Self.delivered, leases: [lease], grace: .seconds(2)).bound == 2)
        // An error at 4.2 s implies that both pushes were accepted.
        let third = APNsID(root: 7, key: 3)
        let refused = taken + [(4150, third, nil), (4200, third, 400)]
        #expect(audit(try record(refused), Self.delivered, leases: [lease], grace: .seconds(2)).bound == 0)
    }

    @Test func `allows for the last grace of a connection of the binary interface that ended without an error`() throws
    {
        var lossy = Audit.Expectation()
        lossy.losesConnections = true
        let taken: [(Int, APNsID, Int?)] = [
            (1000, Self.one, nil), (1000, Self.one, 200), (4000, Self.two, nil), (4000, Self.two, 200),
        ]
        let cut = try record(taken, connectionEndsAt: 5000)
        #expect(audit(cut, Self.delivered, lossy).bound == 0)
        #expect(audit(cut, Self.delivered, grace: .seconds(2), lossy).bound == 1)
        let third = APNsID(root: 7, key: 3)
        let ended = try record(taken + [(4500, third, nil), (5000, third, 400)], connectionEndsAt: 5000)
        #expect(audit(ended, Self.delivered, grace: .seconds(2), lossy).bound == 0)
    }

    @Test func `allows for what a stopped process had in hand, a turn of its loop at the most`() throws {
        let late = try record(Self.both + [(5000, Self.one, nil), (5100, Self.two, nil), (6000, Self.two, nil)])
        var stopped = Audit.Expectation()
        stopped.waking = 4_900_000...5_500_000
        #expect(audit(late, Self.delivered, stopped).bound == 2)
        let flood = try record(Self.both + (5000..<5300).map { ($0, Self.one, nil) })
        #expect(audit(flood, Self.delivered, stopped).bound == 100)
    }

    @Test func `allows for what was in flight when a connection was lost, if it is told to`() throws {
        let record = try record(Self.both + [(5, Self.one, nil)], connectionEndsAt: 100)
        var lossy = Audit.Expectation()
        #expect(audit(record, Self.delivered, lossy).bound == 0)
        lossy.losesConnections = true
        #expect(audit(record, Self.delivered, lossy).bound == 3)
        lossy.isClean = true
        #expect(audit(record, Self.delivered, lossy).bound == 0)
    }
}
