import PostgresStore
import QueueCore
import TestSupport
import Testing

/// `pushq.is_plain_alert` accepts most alerts at once, and `pushq.payload_problem` relies on it. The rules in Swift
/// share no code with it.
@Suite(.timeLimit(.minutes(10))) struct `A plain alert` {
    private static let isPlain = Statement(
        "is_plain",
        "select pushq.is_plain_alert(p.text::json) as plain from unnest($1::text[]) with ordinality p(text, n) order by p.n"
    )

    /// Random payloads, with members that go together and members that do not, duplicate keys, and unusual numbers.
    private struct Payloads {
        var dice: SeededGenerator

        private mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &dice) }

        mutating func any() -> String {
            var members = [#""aps":\#(aps())"#]
            if below(3) == 0 { members.append(#""id":\#(value())"#) }
            if below(6) == 0 { members.append(#""deep":{"a":\#(value()),"b":{"a":\#(value())}}"#) }
            if below(12) == 0 { members.append(#""aps":{"badge":1}"#) }
            if below(12) == 0 { members.append(#""deep":{"k":1,"k":2}"#) }
            if below(20) == 0 { members.append(#""long":"\#(String(repeating: "x", count: 4050))""#) }
            if below(20) == 0 {
                members.append(#""nested":\#(String(repeating: "[", count: 64) + String(repeating: "]", count: 64))"#)
            }
            return "{\(members.shuffled(using: &dice).joined(separator: below(3) == 0 ? " , " : ","))}"
        }

        private mutating func aps() -> String {
            if below(30) == 0 { return value() }
            let names = [
                "alert", "badge", "sound", "thread-id", "category", "mutable-content", "content-available",
                "interruption-level", "target-content-id", "relevance-score", "own", "aps",
            ]
            let members = (0..<(1 + below(4))).map { _ in
                let name = names[below(names.count)]
                return #""\#(name)"\#(below(4) == 0 ? " : " : ":")\#(fitting(name))"#
            }
            return "{\(members.joined(separator: ","))}"
        }

        /// A value that is valid for the key, or any value.
        private mutating func fitting(_ name: String) -> String {
            if below(8) == 0 { return value() }
            switch name {
            case "alert" where below(2) == 0:
                let parts = (0..<below(4)).map { _ in
                    let key = ["title", "subtitle", "body", "loc-key", "loc-args", "launch-image", "own"][below(7)]
                    return #""\#(key)":\#(below(8) == 0 ? value() : text())"#
                }
                return "{\(parts.joined(separator: ","))}"
            case "badge": return ["0", "7", "12345", "7.0", "-1", "1e1"][below(6)]
            case "mutable-content", "content-available": return ["1", "0", "1.0", "2"][below(4)]
            default: return text()
            }
        }

        private mutating func text() -> String {
            [#""x""#, #""a:b""#, #""say \"aps\":1""#, #""\\""#, #""{[""#, #""ü\n""#, #""\u00e9""#, #""""#][below(8)]
        }

        private mutating func value() -> String {
            ["null", "true", "3", "-3.5", "1e400", "[1,{\"a\":2},{\"a\":3}]", "{}", "[]", text()][below(9)]
        }
    }

    @Test func `is one that the rules accept, however it is put together`() async throws {
        let seed = UInt64.random(in: 0 ..< .max)
        try await withDatabase { _, database in
            let store = try await database.connect()
            var made = Payloads(dice: SeededGenerator(seed: seed))
            let payloads = (0..<20_000).map { _ in made.any() }
            let rows = try await store.execute(Self.isPlain, [.textArray(payloads)])
            var plain = 0
            for (payload, row) in zip(payloads, rows) where row.bool("plain") {
                plain += 1
                let refusal = MessageRules.firstError(in: Message(payload: payload), now: 0)?.text
                #expect(refusal == nil, "seed \(seed): \(payload.prefix(300))")
            }
            #expect(plain > 1000, "of 20,000")
        }
    }

    @Test func `is what producers usually send`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            let usual = [
                #"{"aps":{"alert":"Hello"}}"#,
                #"{"aps": {"alert": {"title": "Order 5", "body": "It is on its way:\n\"today\""}, "sound": "default", "badge": 3}, "order": {"id": 5, "price": 19.99}}"#,
                #"{"aps":{"badge":0}}"#,
                #"{"aps":{"alert":{"loc-key":"NEWS","title-loc-key":"T"},"mutable-content":1,"thread-id":"a","category":"c","interruption-level":"active"},"link":"https://example.com/?a=1"}"#,
            ]
            let rows = try await store.execute(Self.isPlain, [.textArray(usual)])
            for (payload, row) in zip(usual, rows) { #expect(row.bool("plain"), "\(payload)") }
        }
    }
}
