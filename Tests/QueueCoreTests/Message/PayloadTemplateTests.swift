import Foundation
import TestSupport
import Testing

@testable import QueueCore

@Suite struct `A payload with placeholders` {
    /// Fills in a payload as a worker does. Returns nil if an attribute is missing.
    static func join(_ payload: String, _ attributes: [String: String]) -> String? {
        let names = attributes.keys.sorted()
        let template = PayloadTemplate(Array(payload.utf8), attributes: names)
        var values: [UInt8] = []
        let ranges = names.map { name in
            let start = values.count
            values += Array((attributes[name] ?? "").utf8)
            return start..<values.count
        }
        guard let byteCount = template.byteCount({ ranges[$0] }) else { return nil }
        var joined: [UInt8] = []
        template.append(to: &joined, values) { ranges[$0] }
        #expect(joined.count == byteCount, "\(payload)")
        return String(decoding: joined, as: UTF8.self)
    }

    @Test(
        arguments: [
            (#"{"aps":{"alert":"Hi {{name}}!"}}"#, ["name": "Ann"], #"{"aps":{"alert":"Hi Ann!"}}"#),
            (#"{"a":"{{name}}"}"#, ["name": ""], nil),
            (#"{"a":"{{name|there}}"}"#, ["name": ""], #"{"a":"there"}"#),
            (#"{"a":"{{name|there}}"}"#, ["name": "Ann"], #"{"a":"Ann"}"#),
            (#"{"a":"{{ name | you there }}."}"#, ["name": ""], #"{"a":"you there."}"#),
            (#"{"a":"{{name|}}"}"#, ["name": ""], #"{"a":""}"#),
            (#"{"a":"{{x}}{{y}}{{x|-}}"}"#, ["x": "1", "y": "2"], #"{"a":"121"}"#),
            (#"{"a":"{{x|é\n\"}}"}"#, ["x": ""], #"{"a":"é\n\""}"#),
            (#"{"a":"{{{{name}}"}"#, ["name": "Ann"], #"{"a":"{{name}}"}"#),
            (#"{"a":"{{{{{{name}}"}"#, ["name": "Ann"], #"{"a":"{{Ann"}"#),
            (#"{"a":"{ } }} {x"}"#, ["x": "1"], #"{"a":"{ } }} {x"}"#),
            (#"{"a":{"b":{}}}"#, [:], #"{"a":{"b":{}}}"#),
            (#"{"a":"\\{{x}}\\"}"#, ["x": "1"], #"{"a":"\\1\\"}"#),
            (#"{"a":"{{last order}}"}"#, ["last order": "7"], #"{"a":"7"}"#),
            (#"{"a":"{{gr\u00f6\u00dfe}}\u00e9"}"#, ["größe": "7"], #"{"a":"7\u00e9"}"#),
            (#"{"a":"{{a|b|c}}"}"#, ["a": ""], #"{"a":"b|c"}"#),
        ] as [(String, [String: String], String?)])
    func `has the attributes in their places, and defaults where they are missing`(
        payload: String, attributes: [String: String], joined: String?
    ) {
        #expect(Self.join(payload, attributes) == joined)
    }

    /// Swift takes them for equal, PostgreSQL does not.
    @Test func `tells names apart that differ only in how an accent is written`() {
        let template = PayloadTemplate(
            Array("{\"a\":\"{{cafe\u{301}}}\"}".utf8), attributes: ["caf\u{E9}", "cafe\u{301}"])
        var joined: [UInt8] = []
        template.append(to: &joined, Array("12".utf8)) { $0..<$0 + 1 }
        #expect(String(decoding: joined, as: UTF8.self) == #"{"a":"2"}"#)
    }

    /// Texts that wrong escaping would break.
    private static let texts: [String] = [
        "", "Ann", "O'Neil", "say \"hi\"", "back\\slash", "\\\"", "\u{1}\u{1F}\u{7F}", "line\nbreak\ttab\r", "😀👩‍👩‍👧",
        "שלום", "مرحبا", "e\u{301}", "{{name}}", "}}", "{", "\u{2028}\u{2029}", "\u{FEFF}x", "</script>", "𝔘𝔫𝔦", "a|b",
        "\\u0041", "%s", "漢字",
    ]

    private struct Case {
        /// A text with placeholders, and the expected text; nil if a value is missing.
        var text = ""
        var meant: String? = ""
    }

    /// Makes a random text of literal text, placeholders and escapes.
    private static func makeText(_ attributes: [String: String], _ random: inout SeededGenerator) -> Case {
        var made = Case()
        for _ in 0..<Int.random(in: 0...6, using: &random) {
            switch Int.random(in: 0..<8, using: &random) {
            case 0:
                made.text += "{{{{"
                made.meant? += "{{"
            case 1...3:
                let name = attributes.keys.sorted().randomElement(using: &random) ?? "x"
                let value = attributes[name] ?? ""
                if Bool.random(using: &random) {
                    // Removes characters that a default cannot contain, and spaces that would be trimmed.
                    let fallback = (texts.randomElement(using: &random) ?? "").filter { !"{}|".contains($0) }
                        .trimmingCharacters(in: CharacterSet(charactersIn: " "))
                    made.text += "{{\(name)|\(fallback)}}"
                    made.meant? += value.isEmpty ? fallback : value
                } else {
                    made.text += "{{ \(name) }}"
                    made.meant = value.isEmpty ? nil : made.meant.map { $0 + value }
                }
            default:
                let literal = (texts.randomElement(using: &random) ?? "").filter { !"{}".contains($0) }
                made.text += literal
                made.meant? += literal
            }
        }
        return made
    }

    private struct Push: Decodable {
        struct Content: Decodable {
            let alert: Alert
        }
        struct Alert: Decodable {
            let title, body: String
        }
        let aps: Content
    }

    private static func json(_ text: String) throws -> String {
        String(decoding: try JSONEncoder().encode(text), as: UTF8.self)
    }

    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64])
    func `is JSON that means what a JSON library makes of the same texts`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var complete = 0
        for _ in 0..<2000 {
            let names = ["name", "last order", "größe", "x"].shuffled(using: &random).prefix(3)
            let attributes = Dictionary(
                uniqueKeysWithValues: names.map { ($0, Self.texts.randomElement(using: &random) ?? "") })
            let (title, body) = (Self.makeText(attributes, &random), Self.makeText(attributes, &random))
            let payload =
                #"{"aps":{"alert":{"title":\#(try Self.json(title.text)),"body":\#(try Self.json(body.text))}},"k":[1]}"#
            // The text as PostgreSQL writes it in JSON, without the quotation marks.
            let values = try attributes.mapValues { String(try Self.json($0).dropFirst().dropLast()) }
            guard let (titleMeant, bodyMeant) = title.meant.flatMap({ title in body.meant.map { (title, $0) } }) else {
                #expect(Self.join(payload, values) == nil, "seed \(seed): \(payload)")
                continue
            }
            complete += 1
            let joined = try #require(Self.join(payload, values), "seed \(seed): \(payload)")
            // Compares Unicode scalars, because Swift's strings are equal even if their scalars differ.
            let read = try JSONDecoder().decode(Push.self, from: Data(joined.utf8)).aps.alert
            #expect(
                [read.title, read.body].map { Array($0.unicodeScalars) }
                    == [titleMeant, bodyMeant].map { Array($0.unicodeScalars) },
                "seed \(seed): \(payload) became \(joined)")
        }
        #expect(complete > 300)
    }
}
