import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

/// A broadcast, and the line with which it is refused; nil if it is accepted.
private struct BroadcastCase: Sendable {
    let broadcast: Broadcast
    let refusal: String?

    private init(_ broadcast: Broadcast, _ refusal: String?) {
        self.broadcast = broadcast
        self.refusal = refusal
    }

    private static let update = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#

    private static func of(_ payload: String, _ refusal: String? = nil) -> BroadcastCase {
        BroadcastCase(Broadcast(payload: payload, expiration: 0, policy: .none), refusal)
    }

    private static func until(_ expiration: Int64?, _ policy: ChannelPolicy, _ refusal: String? = nil) -> BroadcastCase
    {
        BroadcastCase(Broadcast(payload: update, expiration: expiration, policy: policy), refusal)
    }

    private static func priority(_ priority: Int, _ refusal: String? = nil) -> BroadcastCase {
        BroadcastCase(Broadcast(payload: update, priority: priority, expiration: 0, policy: .none), refusal)
    }

    /// An update of exactly `bytes` bytes, in two-byte characters as far as possible.
    private static func update(bytes: Int) -> String {
        let (head, tail) = (#"{"aps":{"timestamp":1,"event":"update","content-state":{"s":""#, #""}}}"#)
        let rest = bytes - head.utf8.count - tail.utf8.count
        return head + String(repeating: "é", count: rest / 2) + (rest % 2 == 1 ? "x" : "") + tail
    }

    static let all: [BroadcastCase] = [
        .of(update), .of(#"{"aps":{"timestamp":1,"event":"end"}}"#),
        .of(update(bytes: 5120)),
        .of(update(bytes: 5121), "the payload has 5121 bytes: a broadcast takes at most 5120"),
        .of("[]", #"the payload is not a JSON object: begin with {"aps": …}"#),
        .of("{}", "aps is missing, which push type liveactivity requires: add it"),
        .of(
            #"{"aps":{"event":"end"}}"#,
            "aps.timestamp is missing, which push type liveactivity requires: set it to seconds since 1970"),
        .of(
            #"{"aps":{"timestamp":1,"event":"update"}}"#,
            "aps.content-state is missing, which event update of a Live Activity requires: add it"),
        .of(
            #"{"aps":{"timestamp":1,"event":"start"}}"#,
            "aps.event is start, and a broadcast cannot start a Live Activity: use update or end"),
        .of(
            #"{"aps":{"timestamp":1,"event":"start","content-state":{},"attributes-type":"A","attributes":{},"alert":{}}}"#,
            "aps.event is start, and a broadcast cannot start a Live Activity: use update or end"),
        .priority(10), .priority(5), .priority(1),
        .priority(7, "priority 7 is unknown: use 10, 5 or 1"),
        .until(
            nil, .none,
            "the expiration is missing, which a broadcast requires: use 0 for a channel that stores nothing, "
                + "else seconds since 1970 that lie ahead"),
        .until(
            nil, .latest,
            "the expiration is missing, which a broadcast requires: use 0 for a channel that stores nothing, "
                + "else seconds since 1970 that lie ahead"),
        .until(300, .none, "expiration 300 does not go with a channel that stores nothing: use 0"),
        .until(
            MessageCase.ahead, .none,
            "expiration 4102444800 does not go with a channel that stores nothing: use 0"),
        .until(MessageCase.ahead, .latest),
        .until(
            0, .latest,
            "expiration 0 does not go with a channel that stores the latest message: "
                + "use seconds since 1970 that lie ahead"),
        .until(300, .latest, "expiration 300 has passed: use seconds since 1970 that lie ahead"),
        .until(-1, .latest, "expiration -1 has passed: use seconds since 1970 that lie ahead"),
        .until(
            MessageCase.ahead * 1000, .latest,
            "expiration 4102444800000 is in milliseconds: use seconds since 1970"),
        .until(
            MessageCase.ahead * 1000, .none,
            "expiration 4102444800000 is in milliseconds: use seconds since 1970"),
    ]
}

@Suite(.timeLimit(.minutes(10))) struct `The rules of a broadcast` {
    private static let statement = Statement(
        "broadcast_problem", "select pushq.broadcast_problem($1::json, $2, $3, $4)")

    @Test func `refuse or accept it by Swift and by SQL in the same words`() async throws {
        let now = Int64(Date.now.timeIntervalSince1970)
        try await withDatabase { _, database in
            let store = try await database.connect()
            for (number, example) in BroadcastCase.all.enumerated() {
                let broadcast = example.broadcast
                let ours = BroadcastRules.firstError(in: broadcast, now: now)?.text
                let theirs = try await store.execute(
                    Self.statement,
                    [
                        .text(broadcast.payload), .int4(Int32(broadcast.priority)), .int8(broadcast.expiration),
                        .int4(Int32(broadcast.policy.rawValue)),
                    ]
                ).one().optionalText("broadcast_problem")
                let which = Comment("case \(number): \(broadcast.payload.prefix(120))")
                #expect(ours == example.refusal, which)
                #expect(theirs == example.refusal, which)
            }
        }
    }

    @Test func `warn of what APNs does not do`() {
        let now: Int64 = 1_800_000_000
        let payload = #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#
        let late = Broadcast(payload: payload, priority: 1, expiration: now + 9 * 3600, policy: .latest)
        let findings = BroadcastRules.check(late, now: now)
        #expect(findings.map(\.path) == ["priority", "expiration"])
        #expect(findings.allSatisfy { $0.severity == .warning })
    }
}
