import HTTP1

/// The heads of requests to the server of metrics.
enum RequestTarget: FuzzTarget {
    static let name = "request"

    /// A head that was read ends where its empty line does, and reads the same without what comes behind it.
    static func read(_ input: [UInt8]) {
        for maximumBody in [0, 1000] { read(input, maximumBody: maximumBody) }
    }

    private static func read(_ input: [UInt8], maximumBody: Int) {
        let head: (head: RequestHead, byteCount: Int)?
        do {
            head = try RequestHead.parse(input, maximumBody: maximumBody)
        } catch {
            precondition((400..<600).contains(error.status) && !error.text.isEmpty)
            return
        }
        guard let (head, byteCount) = head else {
            precondition(input.count <= RequestHead.maximumBytes, "what is too large is not waited for")
            return
        }
        precondition(byteCount <= min(input.count, RequestHead.maximumBytes))
        precondition(Array(input[..<byteCount].suffix(4)) == [13, 10, 13, 10])
        precondition(head.path.hasPrefix("/") || head.path == "*")
        precondition(head.fields.count <= RequestHead.maximumFields)
        precondition((0...maximumBody).contains(head.bodyByteCount))
        let again = try? RequestHead.parse(Array(input[..<byteCount]), maximumBody: maximumBody)
        precondition(again?.head == head && again?.byteCount == byteCount, "what comes behind a head changes it")
        let shorter = try? RequestHead.parse(Array(input[..<(byteCount - 1)]), maximumBody: maximumBody)
        precondition(shorter == nil, "a head is read when it is whole")
    }
}
