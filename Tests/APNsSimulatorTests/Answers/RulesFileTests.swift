import APNsSimulator
import Testing

@Suite struct `A file of rules` {
    @Test func `says all that can be said`() throws {
        let json = """
            {
              "latency_ms": [5, 50.5],
              "outcomes": [
                {"token_prefix": "DEAD", "reason": "Unregistered", "timestamp": 1700000000000},
                {"share": 0.01, "reason": "BadDeviceToken"},
                {"probability": 0.02, "reason": "ServiceUnavailable", "retry_after": 3, "times": 2},
                {"token_prefix": "f00d", "status": 520, "body": "<html>"},
                {"topic": "com.example.Quiet", "answer": false},
                {"channel": "YQ==", "reason": "TooManyRequests"}
              ],
              "go_away": {"after_requests": 100, "graceful": false},
              "reset": {"after_requests": 50},
              "errors": {"end_after": 90, "slow_after": 8}
            }
            """
        let rules = try Rules(json: Array(json.utf8))
        #expect(
            rules
                == Rules(
                    latency: .milliseconds(5) ... .microseconds(50_500),
                    outcomes: [
                        OutcomeRule(
                            .refuse(.init(.unregistered, timestamp: 1_700_000_000_000)), tokenPrefix: "dead"),
                        OutcomeRule(.refuse(.init(.badDeviceToken)), share: 0.01),
                        OutcomeRule(
                            .refuse(.init(.serviceUnavailable, retryAfter: "3")), probability: 0.02, times: 2),
                        OutcomeRule(
                            .refuse(.init(status: 520, reason: "", rawBody: "<html>")), tokenPrefix: "f00d"),
                        OutcomeRule(.silence, topic: "com.example.Quiet"),
                        OutcomeRule(.refuse(.init(.tooManyRequests)), channel: "YQ=="),
                    ],
                    connections: .init(
                        goAwayAfter: 100, isGoAwayGraceful: false, resetAfter: 50, endAfterErrors: 90,
                        slowAfterErrors: 8)))
        #expect(try Rules(json: Array("{}".utf8)) == Rules())
        #expect(try Rules(json: Array(#"{"latency_ms": 40}"#.utf8)).latency == .milliseconds(40) ... .milliseconds(40))
    }

    @Test(arguments: [
        ("{", "rules: this is not JSON; compare it with the example of `pushq simulate --help`"),
        ("[]", "rules: must be an object: { … }"),
        (
            #"{"latency": 1}"#,
            #"rules: has "latency", which means nothing here; known are latency_ms, outcomes, go_away, reset, errors"#
        ),
        (#"{"latency_ms": "5"}"#, "rules: latency_ms must be a number from 0 to 600000"),
        (
            #"{"latency_ms": [9, 3]}"#,
            "rules: latency_ms must be a number of milliseconds or two of them, the smaller first"
        ),
        (
            #"{"outcomes": [{"status": 429, "retry_after": "1\r\nx: 2"}]}"#,
            #"rules: outcomes[0].retry_after must be seconds, or a date such as "Sun, 06 Nov 1994 08:49:37 GMT""#
        ),
        (
            #"{"outcomes": [{}]}"#,
            #"rules: outcomes[0] says neither "reason" nor "status" nor "answer": false; add one of them"#
        ),
        (
            #"{"outcomes": [{"reason": "Shutdown"}, {"reason": "Gone"}]}"#,
            #"rules: outcomes[1] has a reason that Apple does not document; check its spelling or add "status""#
        ),
        (#"{"outcomes": [{"status": 20}]}"#, "rules: outcomes[0].status must be a whole number from 200 to 599"),
        (#"{"outcomes": [{"status": 400, "share": 2}]}"#, "rules: outcomes[0].share must be a number from 0 to 1"),
        (
            #"{"outcomes": [{"status": 400, "token_prefix": "xyz"}]}"#,
            #"rules: outcomes[0].token_prefix must be the first hexadecimal digits of device tokens, such as "dead""#
        ),
        (#"{"go_away": {}}"#, #"rules: go_away lacks "after_requests"; add it"#),
        (
            #"{"reset": {"after_requests": 0}}"#,
            "rules: reset.after_requests must be a whole number from 1 to 1000000000"
        ),
    ])
    func `is refused with one line that says where and what`(json: String, message: String) {
        let error = #expect(throws: SimulatorError.self) { try Rules(json: Array(json.utf8)) }
        #expect(error?.description == message)
    }
}
