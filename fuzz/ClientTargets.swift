import HTTP1

/// The beginning of what a receiver of webhooks answers.
enum WebhookAnswerTarget: FuzzTarget {
    static let name = "webhook-answer"

    /// The first byte says where the rest is divided. A status is the same however its bytes come, and is known or
    /// given up within the bytes that are read.
    static func read(_ input: [UInt8]) {
        let bytes = Array(input.dropFirst())
        let place = min(Int(input.first ?? 0), bytes.count)
        var (whole, parts) = (AnswerStatusParser(), AnswerStatusParser())
        let status = Result { () throws(AnswerFault) in try whole.take(bytes.span) }
        let again = Result { () throws(AnswerFault) in
            let first = try parts.take(Array(bytes[..<place]).span)
            let second = try parts.take(Array(bytes[place...]).span)
            precondition(first == nil || second == nil, "a status is told once")
            return first ?? second
        }
        precondition(status == again, "it matters how the bytes come")
        if case .success(let status) = status {
            precondition(status.map { (200...999).contains($0) } ?? (bytes.count <= AnswerStatusParser.maximumBytes))
        }
    }
}

/// URLs that an operator has been given.
enum WebAddressTarget: FuzzTarget {
    static let name = "url"

    /// What is read puts no line end and no blank into the head of a request, and reads the same again.
    static func read(_ input: [UInt8]) {
        guard let address = try? WebAddress(parsing: String(decoding: input, as: UTF8.self)) else { return }
        for part in [address.host, address.target, address.hostField] {
            precondition(!part.isEmpty && part.utf8.allSatisfy { (0x21...0x7E).contains($0) })
        }
        precondition(address.target.hasPrefix("/") && address.port > 0)
        let text = "\(address.isSecure ? "https" : "http")://\(address.hostField)\(address.target)"
        guard text.utf8.count <= WebAddress.maximumLength else { return }
        let again = try? WebAddress(parsing: text)
        precondition(again?.host == address.host && again?.port == address.port && again?.target == address.target)
        precondition(again?.isSecure == address.isSecure)
    }
}
