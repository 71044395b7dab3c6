import QueueCore

/// Messages of producers, as `pushq lint` and the commands that send check them.
enum MessageTarget: FuzzTarget {
    static let name = "message"

    private static let now: Int64 = 1_800_000_000

    /// Three bytes choose push type, priority, expiration and collapse ID; the rest is the payload.
    static func read(_ input: [UInt8]) {
        var reader = InputReader(input)
        let (type, priority, others) = (Int(reader.byte()), Int(reader.byte()), Int(reader.byte()))
        var message = Message(payload: "", pushType: PushType.allCases[type % PushType.allCases.count])
        message.priority = priority < 12 ? priority : nil
        message.expiration = [nil, 0, 300, now + 60, now + 40 * 86_400, 1_800_000_000_000, .max, .min][others % 8]
        if others >= 128 { message.collapseID = String(decoding: reader.bytes(others % 80), as: UTF8.self) }
        message.payload = String(decoding: reader.remainder(), as: UTF8.self)
        check(message)
    }

    private static func check(_ message: Message) {
        let findings = MessageRules.check(message, now: now)
        for finding in findings {
            precondition(!finding.path.isEmpty && !finding.text.isEmpty)
            guard let offset = finding.offset else { continue }
            precondition((0...message.payload.utf8.count).contains(offset), "a finding lies outside the payload")
            let position = TextPosition(ofByte: offset, in: message.payload)
            precondition(position.line >= 1 && position.column >= 1)
        }
        let first = findings.first { $0.severity == .error }
        precondition(MessageRules.firstError(in: message, now: now) == first, "the same message, another verdict")
    }
}
