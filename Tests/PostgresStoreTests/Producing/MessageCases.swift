import QueueCore

/// A message, and the line with which it is refused; nil if it is accepted.
struct MessageCase: Sendable {
    let message: Message
    let refusal: String?

    private init(_ message: Message, _ refusal: String?) {
        self.message = message
        self.refusal = refusal
    }

    /// A message that consists of a payload and a push type.
    private static func of(_ type: PushType, _ payload: String, _ refusal: String? = nil) -> MessageCase {
        MessageCase(Message(payload: payload, pushType: type), refusal)
    }

    /// An alert to a Wallet pass.
    private static func pass(_ payload: String, _ refusal: String? = nil) -> MessageCase {
        MessageCase(Message(payload: payload, app: "pass.com.acme.card"), refusal)
    }

    /// An alert to a website in Safari.
    private static func website(_ payload: String, _ refusal: String? = nil) -> MessageCase {
        MessageCase(Message(payload: payload, app: "web.com.acme"), refusal)
    }

    /// An alert with other headers.
    private static func alert(
        priority: Int? = nil, expiration: Int64? = nil, collapseID: String? = nil, _ refusal: String? = nil
    ) -> MessageCase {
        let payload = #"{"aps":{"alert":"x"}}"#
        return MessageCase(
            Message(payload: payload, priority: priority, expiration: expiration, collapseID: collapseID), refusal)
    }

    /// A payload of exactly `bytes` bytes, in two-byte characters as far as possible.
    private static func payload(bytes: Int) -> String {
        let rest = bytes - #"{"aps":{"alert":""}}"#.utf8.count
        return #"{"aps":{"alert":"\#(String(repeating: "é", count: rest / 2) + (rest % 2 == 1 ? "x" : ""))"}}"#
    }

    /// A payload that raises the badge. It has exactly `bytes` bytes if the badge has five digits.
    private static func raising(bytes: Int) -> String {
        let empty = #"{"aps":{"alert":"","badge":}}"#.utf8.count + 5
        let text = String(repeating: "x", count: bytes - empty)
        return #"{"aps":{"alert":"\#(text)","badge":{ "increment": 12 }}}"#
    }

    /// A payload that raises the badge with an object of exactly `bytes` bytes.
    private static func raising(objectBytes bytes: Int) -> String {
        let space = String(repeating: " ", count: bytes - #"{"increment":1}"#.utf8.count)
        return #"{"aps":{"badge":{"increment":1\#(space)}}}"#
    }

    private static func nested(_ depth: Int) -> String {
        let brackets = String(repeating: "[", count: depth - 1) + String(repeating: "]", count: depth - 1)
        return #"{"aps":{"alert":"[{[{"},"a":\#(brackets)}"#
    }

    /// A time in the future until the year 2100.
    static let ahead: Int64 = 4_102_444_800

    static let all: [MessageCase] = payloads + values + types + passes + websites + liveActivities + headers

    private static let passes: [MessageCase] = [
        .pass("{}"),
        .pass(#"{"aps":{}}"#),
        .pass(#"{"aps":null}"#),
        .pass(#"{"aps":{"alert":"x"}}"#),
        .pass(#"{"aps":{"badge":-1}}"#, "aps.badge is -1: use a whole number, 0 or greater"),
        .pass(#"{"aps":[]}"#, "aps is an array: use an object"),
        .pass("[]", #"the payload is not a JSON object: begin with {"aps": …}"#),
        MessageCase(
            Message(payload: "{}", pushType: .background, app: "pass.com.acme.card"),
            "aps is missing, which push type background requires: add it"),
        MessageCase(
            Message(payload: "{}", priority: 7, app: "pass.com.acme.card"), "priority 7 is unknown: use 10, 5 or 1"),
    ]

    private static let withoutArguments =
        "aps.url-args is missing, which a push to a website requires: set it to the values for its urlFormatString, or to []"

    private static let websites: [MessageCase] = [
        .website(#"{"aps":{"alert":"x","url-args":["boarding"]}}"#),
        .website(#"{"aps":{"alert":"x","url-args":[]}}"#),
        .website(#"{"aps":{"alert":"x"}}"#, withoutArguments),
        .website(#"{"aps":{"badge":1}}"#, withoutArguments),
        .website(#"{"aps":{"alert":"x","url-args":null}}"#, withoutArguments),
        .website(#"{"aps":{"alert":"x"},"url-args":[]}"#, withoutArguments),
        .website(#"{"aps":{"alert":"x","url-args":{}}}"#, "aps.url-args is an object: use an array of strings"),
        .website(#"{"aps":[]}"#, "aps is an array: use an object"),
        .website("{}", "aps is missing, which push type alert requires: add it"),
        MessageCase(
            Message(payload: #"{"aps":{"content-available":1}}"#, pushType: .background, app: "web.com.acme"), nil),
        MessageCase(
            Message(payload: #"{"aps":{"alert":"x"}}"#, priority: 7, app: "web.com.acme"),
            "priority 7 is unknown: use 10, 5 or 1"),
        MessageCase(Message(payload: #"{"aps":{"alert":"x"}}"#, app: "com.web.acme"), nil),
    ]

    private static let payloads: [MessageCase] = [
        .of(.alert, "[]", #"the payload is not a JSON object: begin with {"aps": …}"#),
        .of(.alert, #""x""#, #"the payload is not a JSON object: begin with {"aps": …}"#),
        .of(.alert, "null", #"the payload is not a JSON object: begin with {"aps": …}"#),
        .of(
            .alert, String(repeating: "[", count: 100) + String(repeating: "]", count: 100),
            #"the payload is not a JSON object: begin with {"aps": …}"#),
        .of(.alert, payload(bytes: 4096)),
        .of(.alert, payload(bytes: 4097), "the payload has 4097 bytes: push type alert takes at most 4096"),
        .of(.voip, payload(bytes: 5120)),
        .of(.voip, payload(bytes: 5121), "the payload has 5121 bytes: push type voip takes at most 5120"),
        .of(.alert, nested(64)),
        .of(.alert, nested(65), "the payload nests deeper than 64 levels: flatten it"),
        .of(.alert, #"{"aps":{"alert":"\ud83d\ude00 \\u0000"}}"#),
        .of(.alert, #"{"aps":{"alert":"\u0041"},"n":1e999999}"#),
        .of(
            .alert, #"{"aps":{"alert":"\ud83d"}}"#,
            #"the payload has a \u escape that is not a character: write the character itself"#),
        .of(
            .alert, #"{"aps":{"alert":"\u0000"}}"#,
            #"the payload has a \u escape that is not a character: write the character itself"#),
        .of(.alert, #"{"aps":{"alert":"x"},"aps":{"alert":"y"}}"#, "“aps” occurs twice in the payload: keep one"),
        .of(.alert, #"{"b":1,"a":1,"a":2,"b":2,"aps":{"alert":"x"}}"#, "“a” occurs twice in the payload: keep one"),
        .of(.alert, #"{"aps":{"alert":"x","badge":1,"badge":2}}"#, "“badge” occurs twice in aps: keep one"),
        .of(.alert, #"{"aps":{"alert":{"title":"x","title":"y"}}}"#, "“title” occurs twice in aps.alert: keep one"),
        .of(.alert, #"{"a":{"b":1,"b":2},"aps":{"alert":"x"}}"#),
        .of(.alert, "{}", "aps is missing, which push type alert requires: add it"),
        .of(
            .alert, #"{"default":{"aps":{"alert":"x"}},"languages":{"de":{"aps":{"alert":"y"}}}}"#,
            "aps is missing, which push type alert requires: add it; "
                + "only a campaign takes several languages, with default and languages"),
        .of(.alert, #"{"aps":null}"#, "aps is missing, which push type alert requires: add it"),
        .of(.alert, #"{"aps":"x"}"#, "aps is a string: use an object"),
        .of(.voip, #"{"aps":[]}"#, "aps is an array: use an object"),
    ]

    private static let values: [MessageCase] = [
        .of(.alert, #"{"aps":{"alert":true}}"#, "aps.alert is a boolean: use a string or an object"),
        .of(.alert, #"{"aps":{"alert":5}}"#, "aps.alert is a number: use a string or an object"),
        .of(.alert, #"{"aps":{"badge":0}}"#),
        .of(.alert, #"{"aps":{"badge":-0}}"#),
        .of(.alert, #"{"aps":{"alert":"x","badge":-0,"content-available":-0,"filter-criteria":"x"}}"#),
        .of(.alert, #"{"aps":{"badge":"1"}}"#, "aps.badge is a string: use a whole number, 0 or greater"),
        .of(.alert, #"{"aps":{"badge":-1}}"#, "aps.badge is -1: use a whole number, 0 or greater"),
        .of(.alert, #"{"aps":{"badge":1.5}}"#, "aps.badge is 1.5: use a whole number, 0 or greater"),
        .of(.alert, #"{"aps":{"badge":true}}"#, "aps.badge is a boolean: use a whole number, 0 or greater"),
        .of(.alert, #"{"aps":{"alert":"x","badge":null}}"#),
        .of(.alert, #"{"aps":{"badge":{"increment":1}}}"#),
        .of(.alert, #"{"aps":{"badge":{"increment":99}}}"#),
        .of(.alert, raising(objectBytes: 64)),
        .of(
            .alert, raising(objectBytes: 65),
            #"aps.badge is an object of 65 bytes: use a whole number, 0 or greater, or {"increment": 1}"#),
        .of(
            .alert, raising(objectBytes: 10_000),
            #"aps.badge is an object of 10000 bytes: use a whole number, 0 or greater, or {"increment": 1}"#),
        .of(.alert, #"{"aps":{"badge":{"incr\u0065ment":9}}}"#),
        .of(
            .alert, #"{"aps":{"badge":{"increment":0}}}"#,
            "aps.badge.increment is 0: use a whole number, 1 to 99"),
        .of(
            .alert, #"{"aps":{"badge":{"increment":100}}}"#,
            "aps.badge.increment is 100: use a whole number, 1 to 99"),
        .of(
            .alert, #"{"aps":{"badge":{"increment":-1}}}"#,
            "aps.badge.increment is -1: use a whole number, 1 to 99"),
        .of(
            .alert, #"{"aps":{"badge":{"increment":1.0}}}"#,
            "aps.badge.increment is 1.0: use a whole number, 1 to 99"),
        .of(
            .alert, #"{"aps":{"badge":{"increment":"1"}}}"#,
            "aps.badge.increment is a string: use a whole number, 1 to 99"),
        .of(
            .alert, #"{"aps":{"badge":{"increment":null}}}"#,
            "aps.badge.increment is null: use a whole number, 1 to 99"),
        .of(
            .alert, #"{"aps":{"badge":{}}}"#,
            #"aps.badge is an object: use a whole number, 0 or greater, or {"increment": 1}"#),
        .of(
            .alert, #"{"aps":{"badge":{"increment":1,"x":1}}}"#,
            #"aps.badge is an object: use a whole number, 0 or greater, or {"increment": 1}"#),
        .of(
            .alert, #"{"aps":{"badge":{"increment":1,"increment":2}}}"#,
            "“increment” occurs twice in aps.badge: keep one"),
        .of(
            .voip, #"{"aps":{"badge":{"increment":1}}}"#,
            "aps.badge.increment does not go with push type voip: use a whole number, 0 or greater"),
        .of(
            .background, #"{"aps":{"content-available":1,"badge":{"increment":1}}}"#,
            "aps.badge does not go with push type background: leave it out"),
        .of(
            .liveactivity,
            #"{"aps":{"timestamp":1,"event":"update","content-state":{},"badge":{"increment":1}}}"#,
            "aps.badge.increment does not go with push type liveactivity: use a whole number, 0 or greater"),
        // The length of the payload counts as with the largest badge.
        .of(.alert, raising(bytes: 4096)),
        .of(.alert, raising(bytes: 4097), "the payload has 4097 bytes: push type alert takes at most 4096"),
        .of(.alert, #"{"aps":{"sound":"default"}}"#),
        .of(.alert, #"{"aps":{"sound":{"critical":1,"name":"default","volume":0.5}}}"#),
        .of(.alert, #"{"aps":{"sound":{"critical":true}}}"#, "aps.sound.critical is a boolean: use the number 1"),
        .of(.alert, #"{"aps":{"sound":{"volume":"loud"}}}"#, "aps.sound.volume is a string: use a number"),
        .of(.alert, #"{"aps":{"alert":"x","mutable-content":1,"thread-id":"a","category":"b"}}"#),
        .of(
            .alert, #"{"aps":{"alert":"x","mutable-content":true}}"#,
            "aps.mutable-content is a boolean: use the number 1"),
        .of(.alert, #"{"aps":{"alert":"x","mutable-content":2}}"#, "aps.mutable-content is 2: use the number 1"),
        .of(.alert, #"{"aps":{"alert":"x","thread-id":7}}"#, "aps.thread-id is a number: use a string"),
        .of(.alert, #"{"aps":{"alert":"x","relevance-score":0}}"#),
        .of(.alert, #"{"aps":{"alert":"x","relevance-score":"1"}}"#, "aps.relevance-score is a string: use a number"),
        .of(.alert, #"{"aps":{"alert":"x","interruption-level":"of-the-future","new-key":{}}}"#),
        .of(.alert, #"{"aps":{"alert":{"title":"a","loc-key":"k","loc-args":["1"],"loc-colour":3}}}"#),
        .of(.alert, #"{"aps":{"alert":{"title":{"loc-key":"k"}}}}"#, "aps.alert.title is an object: use a string"),
        .of(.alert, #"{"aps":{"alert":{"body":3}}}"#, "aps.alert.body is a number: use a string"),
        .of(.alert, #"{"aps":{"alert":{"loc-args":"a"}}}"#, "aps.alert.loc-args is a string: use an array of strings"),
        .of(
            .alert, #"{"aps":{"alert":{"loc-args":[1]}}}"#,
            "aps.alert.loc-args is an array of other things: use an array of strings"),
        .of(.alert, #"{"aps":{"alert":{"title-loc-args":[]}}}"#),
        .of(.alert, #"{"aps":{"alert":{"title":"x","action":"View"},"url-args":["boarding","A998"]}}"#),
        .of(.alert, #"{"aps":{"alert":"x","url-args":{}}}"#, "aps.url-args is an object: use an array of strings"),
        .of(.alert, #"{"aps":{"badge":"1","alert":3}}"#, "aps.badge is a string: use a whole number, 0 or greater"),
    ]

    private static let types: [MessageCase] = [
        .of(
            .alert, #"{"aps":{}}"#,
            "aps has none of alert, badge, sound, one of which push type alert requires: add one, or use push type background"
        ),
        .of(
            .alert, #"{"aps":{"alert":null,"content-available":1}}"#,
            "aps has none of alert, badge, sound, one of which push type alert requires: add one, or use push type background"
        ),
        .of(.background, #"{"aps":{"content-available":1},"a":1}"#),
        .of(.background, "{}", "aps is missing, which push type background requires: add it"),
        .of(
            .background, #"{"aps":{}}"#,
            "aps.content-available is not 1, which push type background requires: set it to 1"),
        .of(
            .background, #"{"aps":{"content-available":0}}"#,
            "aps.content-available is not 1, which push type background requires: set it to 1"),
        .of(
            .background, #"{"aps":{"content-available":true}}"#,
            "aps.content-available is a boolean: use the number 1"),
        .of(
            .background, #"{"aps":{"content-available":1,"sound":""}}"#,
            "aps.sound does not go with push type background: leave it out"),
        .of(
            .background, #"{"aps":{"content-available":1,"badge":1,"alert":"x"}}"#,
            "aps.alert does not go with push type background: leave it out"),
        .of(.voip, "{}"),
        .of(.voip, #"{"caller":"x","aps":{}}"#),
        .of(.complication, #"{"steps":5}"#),
        .of(.fileprovider, #"{"container-identifier":"a","domain":"b"}"#),
        .of(
            .fileprovider, #"{"domain":"b"}"#,
            "container-identifier is missing, which push type fileprovider requires: set it to the container's identifier"
        ),
        .of(
            .fileprovider, #"{"container-identifier":"a"}"#,
            "domain is missing, which push type fileprovider requires: set it to the domain's identifier"),
        .of(.fileprovider, #"{"container-identifier":"a","domain":1}"#, "domain is a number: use a string"),
        .of(.mdm, #"{"mdm":"magic"}"#),
        .of(.mdm, "{}", "mdm is missing, which push type mdm requires: set it to the device's PushMagic"),
        .of(.mdm, #"{"mdm":7}"#, "mdm is a number: use a string"),
        .of(.mdm, #"{"mdm":"magic","aps":{}}"#, "aps does not go with push type mdm: leave it out"),
        .of(.location, #"{"aps":{"content-available":1}}"#),
        .of(.location, "{}"),
        .of(.pushtotalk, #"{"aps":{},"activeSpeaker":"x"}"#),
        .of(.widgets, #"{"aps":{"content-changed":true}}"#),
        .of(.widgets, "{}", "aps is missing, which push type widgets requires: add it"),
        .of(
            .widgets, #"{"aps":{"content-changed":false}}"#,
            "aps.content-changed is not true, which push type widgets requires: set it to true"),
        .of(.controls, #"{"aps":{"content-changed":true}}"#),
        .of(.controls, #"{"aps":{"content-changed":1}}"#, "aps.content-changed is a number: use true or false"),
    ]

    private static let start = #"""
        {"aps":{"timestamp":1700000000,"event":"start","content-state":{"n":1},"attributes-type":"T","attributes":{},
        "alert":{"title":{"loc-key":"t"},"body":"b","sound":"s.aiff"},"input-push-token":1}}
        """#

    private static let liveActivities: [MessageCase] = [
        .of(.liveactivity, start),
        .of(
            .liveactivity, start.replacing(#""attributes":{},"#, with: ""),
            "aps.attributes is missing, which event start of a Live Activity requires: add it"),
        .of(
            .liveactivity, start.replacing(#""attributes-type":"T","#, with: ""),
            "aps.attributes-type is missing, which event start of a Live Activity requires: add it"),
        .of(
            .liveactivity, start.replacing(#""alert":{"#, with: #""other":{"#),
            "aps.alert is missing, which event start of a Live Activity requires: add it"),
        .of(
            .liveactivity, start.replacing(#""content-state":{"n":1},"#, with: ""),
            "aps.content-state is missing, which event start of a Live Activity requires: add it"),
        .of(.liveactivity, #"{"aps":{"timestamp":1,"event":"update","content-state":{},"stale-date":99999999999}}"#),
        .of(
            .liveactivity, #"{"aps":{"timestamp":1,"event":"update"}}"#,
            "aps.content-state is missing, which event update of a Live Activity requires: add it"),
        .of(
            .liveactivity, #"{"aps":{"timestamp":1,"event":"update","content-state":"x"}}"#,
            "aps.content-state is a string: use an object"),
        .of(.liveactivity, #"{"aps":{"timestamp":1,"event":"end","dismissal-date":2,"relevance-score":75}}"#),
        .of(
            .liveactivity, #"{"aps":{"event":"end"}}"#,
            "aps.timestamp is missing, which push type liveactivity requires: set it to seconds since 1970"),
        .of(
            .liveactivity, #"{"aps":{"timestamp":1}}"#,
            "aps.event is missing, which push type liveactivity requires: set it to start, update or end"),
        .of(
            .liveactivity, #"{"aps":{"timestamp":1,"event":"pause"}}"#,
            "aps.event is “pause”: use start, update or end"),
        .of(
            .liveactivity, #"{"aps":{"timestamp":1700000000000,"event":"end"}}"#,
            "aps.timestamp is 1700000000000, which is milliseconds: use seconds since 1970"),
        .of(
            .liveactivity, #"{"aps":{"timestamp":1.5,"event":"end"}}"#,
            "aps.timestamp is 1.5: use seconds since 1970"),
        .of(
            .liveactivity, #"{"aps":{"timestamp":"1","event":"end"}}"#,
            "aps.timestamp is a string: use seconds since 1970"),
        .of(
            .liveactivity, #"{"aps":{"timestamp":1,"event":"end","dismissal-date":1700000000000}}"#,
            "aps.dismissal-date is 1700000000000, which is milliseconds: use seconds since 1970"),
    ]

    private static let headers: [MessageCase] = [
        .alert(priority: 10), .alert(priority: 5), .alert(priority: 1),
        .alert(priority: 7, "priority 7 is unknown: use 10, 5 or 1"),
        .alert(priority: 0, "priority 0 is unknown: use 10, 5 or 1"),
        MessageCase(Message(payload: #"{"aps":{"content-available":1}}"#, pushType: .background, priority: 5), nil),
        MessageCase(
            Message(payload: #"{"aps":{"content-available":1}}"#, pushType: .background, priority: 10),
            "priority 10 is not allowed for push type background: use 5"),
        .alert(expiration: 0), .alert(expiration: ahead),
        .alert(
            expiration: 300,
            "expiration 300 has passed: use 0 for one attempt, or seconds since 1970 that lie ahead"),
        .alert(
            expiration: -1,
            "expiration -1 has passed: use 0 for one attempt, or seconds since 1970 that lie ahead"),
        .alert(expiration: ahead * 1000, "expiration 4102444800000 is in milliseconds: use seconds since 1970"),
        .alert(collapseID: String(repeating: "é", count: 32)),
        .alert(collapseID: String(repeating: "é", count: 33), "the collapse ID has 66 bytes: use 1 to 64"),
        .alert(collapseID: String(repeating: "x", count: 65), "the collapse ID has 65 bytes: use 1 to 64"),
        .alert(collapseID: "", "the collapse ID has 0 bytes: use 1 to 64"),
        .alert(
            collapseID: "a\r\nauthorization: b",
            "the collapse ID has a control character, or a space around it: use visible characters"),
        .alert(
            collapseID: " a", "the collapse ID has a control character, or a space around it: use visible characters"),
        .alert(collapseID: "a b"),
    ]
}
