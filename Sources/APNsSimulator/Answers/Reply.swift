import HTTP2

/// A response that is prepared once and may be sent many times. Requests and counts refer to it by its number.
struct Reply {
    let status: Int
    let reason: String
    /// When the token died, in milliseconds since 1970, if a rule gives that.
    let timestamp: Int?
    let headers: PreparedHeaders
    /// The body; if it contains the time of the answer, the part before that.
    let body: [UInt8]
    let endsWithTime: Bool

    /// Whether APNs would always give this answer to the same request. Other answers are transient: the client should
    /// send again.
    var isFinal: Bool { status != 403 && status != 429 && status < 500 }

    static let accepted = Reply(OutcomeRule.Answer(status: 200, reason: ""))

    init(_ answer: OutcomeRule.Answer) {
        status = answer.status
        reason = answer.reason
        timestamp = answer.timestamp
        var fields = [PreparedHeaders.Field(":status", String(answer.status))]
        if let retryAfter = answer.retryAfter { fields.append(.init("retry-after", retryAfter)) }
        headers = PreparedHeaders(fields)
        endsWithTime = answer.status == 410 && answer.timestamp == nil && answer.rawBody == nil
        body = Self.body(of: answer, isOpenEnded: endsWithTime)
    }

    private static func body(of answer: OutcomeRule.Answer, isOpenEnded: Bool) -> [UInt8] {
        if let raw = answer.rawBody { return Array(raw.utf8) }
        guard !answer.reason.isEmpty || isOpenEnded else { return [] }
        let start = #"{"reason":""# + escaped(answer.reason) + #"""#
        if isOpenEnded { return Array((start + #","timestamp":"#).utf8) }
        return Array((start + (answer.timestamp.map { #","timestamp":\#($0)"# } ?? "") + "}").utf8)
    }

    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { result, character in
            switch character {
            case "\"", "\\": result += "\\" + String(character)
            case _ where character.unicodeScalars.contains { $0.value < 0x20 }: result += " "
            default: result.append(character)
            }
        }
    }

    /// Returns the body as it is sent now; `now` in microseconds since 1970.
    func body(now: Int) -> [UInt8] {
        endsWithTime ? body + Array("\(now / 1000)}".utf8) : body
    }
}
