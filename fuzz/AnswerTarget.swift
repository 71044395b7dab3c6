import QueueCore

@testable import APNs

/// What stands in answers other than 200: the body with reason and timestamp, and `retry-after`.
enum AnswerTarget: FuzzTarget {
    static let name = "answer"

    /// The first byte says which of the two the rest is.
    static func read(_ input: [UInt8]) {
        var reader = InputReader(input)
        let kind = reader.byte()
        let bytes = reader.remainder()
        if kind == UInt8(ascii: "R") { return readRetryAfter(bytes) }
        let body = RefusalBody(bytes)
        if let date = body.deadSinceMilliseconds { precondition(date > 0) }
        let reason = Reason(status: Int(kind) + 300, text: body.reason)
        precondition(!reason.text.isEmpty)
    }

    private static func readRetryAfter(_ bytes: [UInt8]) {
        guard let delay = RetryAfter.delay(from: String(decoding: bytes, as: UTF8.self), now: 1_800_000_000) else {
            return
        }
        precondition(delay >= .zero && delay <= RetryAfter.maximum, "a server may make us wait for an hour at most")
    }
}
