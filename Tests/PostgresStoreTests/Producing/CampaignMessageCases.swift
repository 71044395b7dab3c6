import QueueCore

/// A message of a campaign, and the line with which it is refused; nil if it is accepted.
struct CampaignMessageCase: Sendable {
    let message: Message
    let refusal: String?

    private init(_ payload: String, _ refusal: String? = nil, pushType: PushType = .alert) {
        message = Message(payload: payload, pushType: pushType)
        self.refusal = refusal
    }

    private static let payload = #"{"aps":{"alert":"x"}}"#

    private static func alert(_ text: String, _ refusal: String? = nil) -> CampaignMessageCase {
        CampaignMessageCase(#"{"aps":{"alert":"\#(text)"}}"#, refusal)
    }

    private static func translated(_ languages: String, _ refusal: String? = nil) -> CampaignMessageCase {
        CampaignMessageCase(#"{"default":\#(payload),"languages":\#(languages)}"#, refusal)
    }

    /// A message whose default has 21 bytes, with one payload in each of many languages, of so many bytes.
    private static func translated(bytes: [Int], _ refusal: String? = nil) -> CampaignMessageCase {
        let letters = Array("abcdefghijklmnopqrstuvwxyz")
        let languages = bytes.enumerated().map { number, count in
            let text = String(repeating: "x", count: count - 20)
            return #""\#(letters[number / 26])\#(letters[number % 26])":{"aps":{"alert":"\#(text)"}}"#
        }
        return translated("{" + languages.joined(separator: ",") + "}", refusal)
    }

    static let all: [CampaignMessageCase] = placeholders + languages + activities

    private static let placeholders: [CampaignMessageCase] = [
        alert("Hi {{name}}, {{ last order | soon }}, {{größe|}}{{{{ }} { }"),
        alert("a single { is none"),
        alert(#"{{gr\u00f6\u00DFe}} {{\ud83d\ude00|there}} {{a \u0041}}"#),
        alert(
            #"{{a\u007cb}}"#,
            #"the placeholder at position 18 asks for “a\u007cb”: the name of an attribute has 1 to 100 bytes here, "#
                + "without braces and backslashes"),
        alert(
            #"{{\\u00e9}}"#,
            #"the placeholder at position 18 asks for “\\u00e9”: the name of an attribute has 1 to 100 bytes here, "#
                + "without braces and backslashes"),
        alert(
            #"{{a\n\u00e9}}"#,
            #"the placeholder at position 18 asks for “a\n\u00e9”: the name of an attribute has 1 to 100 bytes here, "#
                + "without braces and backslashes"),
        alert(
            "{{" + String(repeating: #"\u00e9"#, count: 51) + "}}",
            "the placeholder at position 18 asks for “" + String(repeating: "é", count: 40)
                + "”: the name of an attribute has 1 to 100 bytes here, without braces and backslashes"),
        alert(
            "Hi {{name",
            "the placeholder at position 21 has no end: close it with }}, or write {{{{ for two braces"),
        alert("é😀 {{", "the placeholder at position 21 has no end: close it with }}, or write {{{{ for two braces"),
        alert("{{}}", "the placeholder at position 18 names no attribute: write {{name}} or {{name|there}}"),
        alert("{{ |x}}", "the placeholder at position 18 names no attribute: write {{name}} or {{name|there}}"),
        alert(
            "{{{name}}}",
            "the placeholder at position 18 asks for “{name”: the name of an attribute has 1 to 100 bytes here, without "
                + "braces and backslashes"),
        alert(
            #"{{a\"b}}"#,
            #"the placeholder at position 18 asks for “a\"b”: the name of an attribute has 1 to 100 bytes here, without "#
                + "braces and backslashes"),
        alert(
            "{{" + String(repeating: "ä", count: 51) + "}}",
            "the placeholder at position 18 asks for “" + String(repeating: "ä", count: 40)
                + "”: the name of an attribute has 1 to 100 bytes here, without braces and backslashes"),
        alert("{{a|{b}}", "the placeholder at position 18 has braces in its default: leave them out"),
        alert("{{a|b {{c}}", "the placeholder at position 18 has braces in its default: leave them out"),
        CampaignMessageCase(
            #"{"aps":{"alert":"x"},"{{name}}" : 1}"#,
            "the placeholder at position 23 is in a name: use it in texts only"),
        CampaignMessageCase(#"{"aps":{"alert":"x"},"a":["{{name}}"]}"#),
        alert(
            #"\u007b{name}}"#, #"the payload has braces that are written as \u007b: write { instead"#),
        alert(
            #"\u007B\u007Bname}}"#, #"the payload has braces that are written as \u007b: write { instead"#),
        alert(#"\u007b is one"#),
        alert(
            #"\ud83d"#, #"the payload has a \u escape that is not a character: write the character itself"#),
        CampaignMessageCase(
            #"{"aps":{"alert":"x","badge":"{{n}}"}}"#, "aps.badge is a string: use a whole number, 0 or greater"),
        CampaignMessageCase(
            #"{"aps":{"alert":"{{name|\#(String(repeating: "é", count: 2100))}}"}}"#,
            "the payload has 4220 bytes: push type alert takes at most 4096"),
        // The limit is for the payload that is sent, not for the names of placeholders.
        alert((0..<60).map { "{{attribute number \($0 % 20) of a long name that is not sent|}}" }.joined()),
        alert(
            (0..<21).map { "{{a\($0)}}" }.joined(), "the message asks for 21 attributes: use at most 20"),
        alert(String(repeating: "{{a|}}", count: 100)),
        alert(
            String(repeating: "{{a|}}", count: 101), "the payload has {{ in 101 places: use at most 100"),
        alert(
            String(repeating: "{{{{ ", count: 101), "the payload has {{ in 202 places: use at most 100"),
        CampaignMessageCase(
            #"{"aps":{"alert":"\#(String(repeating: "{{a}}", count: 3300))"}}"#,
            "the payload has 16520 bytes with its placeholders: use at most 16384"),
    ]

    private static let languages: [CampaignMessageCase] = [
        translated(#"{"de":\#(payload),"pt-BR":\#(payload),"zh_hant_TW":\#(payload)}"#),
        translated("{}"),
        translated(
            #"{"de":\#(payload),"pt-BR":{"aps":{"alert":"\\ \u0000"}}}"#,
            #"language “pt-BR”: the payload has a \u escape that is not a character: write the character itself"#),
        // A payload may have keys with these names beside `aps`.
        CampaignMessageCase(#"{"aps":{"alert":"x"},"languages":["de"],"default":1}"#),
        CampaignMessageCase(
            #"{"languages":{"de":\#(payload)}}"#,
            "the message has no default: add the payload for all other languages"),
        CampaignMessageCase(
            #"{"default":\#(payload)}"#,
            "aps is missing, which push type alert requires: add it; "
                + "only a campaign takes several languages, with default and languages"),
        CampaignMessageCase(
            #"{"default":\#(payload),"languages":{},"extra":1}"#,
            "the message has “extra” next to default and languages: leave it out"),
        CampaignMessageCase(
            #"{"default":\#(payload),"default":\#(payload),"languages":{}}"#,
            "“default” occurs twice in the message: keep one"),
        translated("[]", #"the languages are not a JSON object: write {"de": {"aps": …}}"#),
        translated(
            #"{"german!":\#(payload)}"#, "the language “german!” is not a language tag: use one such as de or de-AT"),
        translated(
            #"{"de-AT":\#(payload),"de_at":\#(payload)}"#, "the language “de-AT” occurs twice in the message: keep one"),
        translated(#"{"de":{}}"#, "language “de”: aps is missing, which push type alert requires: add it"),
        translated(
            #"{"fr":\#(payload),"de":{"aps":{"alert":"{{"}}}"#,
            "language “de”: the placeholder at position 18 has no end: close it with }}, or write {{{{ for two braces"),
        translated(
            #"{"de":{"aps":{"alert":"x","badge":-1}}}"#,
            "language “de”: aps.badge is -1: use a whole number, 0 or greater"),
        translated(
            #"{"de":{"aps":{"alert":"x","badge":{"increment":1}}}}"#,
            "language “de”: it raises the badge by more or less than the default does: use the same increment"),
        CampaignMessageCase(
            #"""
            {"default":{"aps":{"badge":{"increment":1},"alert":"{{x|}}"}},
            "languages":{"de":{"aps":{"alert":"x","badge":{"increment":1}}}}}
            """#),
        translated(#"{"de":"x"}"#, #"language “de”: the payload is not a JSON object: begin with {"aps": …}"#),
        CampaignMessageCase(
            #"{"default":null,"languages":{}}"#, #"the payload is not a JSON object: begin with {"aps": …}"#),
        translated(
            "{"
                + (0...100).map {
                    "\"a\(String($0, radix: 26, uppercase: false).map { "\($0)" }.joined())x\":\(payload)"
                }
                .joined(separator: ",") + "}",
            "the message has 101 languages: use at most 100"),
        translated(bytes: Array(repeating: 4095, count: 64) + [43]),
        translated(
            bytes: Array(repeating: 4095, count: 64) + [44],
            "the message has 262145 bytes in all its languages: use at most 262144"),
        CampaignMessageCase(
            #"""
            {"default":{"aps":{"timestamp":1,"event":"update","content-state":{}}},"languages":{"de":{"aps":{"timestamp":1,
            "event":"start","content-state":{},"attributes-type":"a","attributes":{},"alert":"x"}}}}
            """#, "language “de”: its event is for tokens of another kind: use that of the default",
            pushType: .liveactivity),
    ]

    private static func start(_ type: String, event: String = "start", channel: String = "") -> String {
        """
        {"aps":{"timestamp":1,"event":"\(event)","content-state":{},"attributes-type":"\(type)","attributes":{},\
        "alert":"x"\(channel)}}
        """
    }

    private static func activity(_ payload: String, _ refusal: String? = nil) -> CampaignMessageCase {
        CampaignMessageCase(payload, refusal, pushType: .liveactivity)
    }

    /// Cases about the fields by which a start or update of a Live Activity chooses its recipients.
    private static let activities: [CampaignMessageCase] = [
        activity(#"{"default":\#(start("Match")),"languages":{"de":\#(start("Match"))}}"#),
        activity(
            #"{"default":\#(start("Match")),"languages":{"de":\#(start("Race"))}}"#,
            "language “de”: its attributes-type is for other tokens: use that of the default"),
        activity(
            start("{{type|Match}}"), "aps.attributes-type has a placeholder: write the same for all recipients"),
        activity(
            start("Match", event: "{{event|start}}"),
            "aps.event has a placeholder: write the same for all recipients"),
        activity(
            #"{"default":\#(start("Match")),"languages":{"de":\#(start("{{type|Match}}"))}}"#,
            "language “de”: aps.attributes-type has a placeholder: write the same for all recipients"),
        activity(start("Match", channel: #","x":"{{name|}}""#)),
    ]
}
