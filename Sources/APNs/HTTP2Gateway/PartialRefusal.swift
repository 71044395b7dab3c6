import HTTP2

/// An answer other than 200, as far as it has come.
struct PartialRefusal {
    /// Maximum number of bytes of a body that are kept; the rest is dropped. Apple's bodies have about 50 bytes, and a
    /// connection may have thousands of them half read.
    static let maximumBodyBytes = 4096
    /// How often an unfinished body is searched for its reason. A search reads the whole body, and a server may send
    /// each byte in a frame of its own.
    static let maximumSearches = 4

    let status: Int
    var retryAfter: Duration?
    private(set) var body: [UInt8] = []
    /// Whether the answer came to its end. What is missing of an incomplete answer may be its reason or its time.
    var isComplete = false
    private(set) var searchCount = 0

    init(status: Int, retryAfter: Duration? = nil, isComplete: Bool = false) {
        self.status = status
        self.retryAfter = retryAfter
        self.isComplete = isComplete
    }

    /// Adds a part of the body. Returns whether nothing more is awaited: the body is a whole JSON object with a reason,
    /// or as long as is kept.
    mutating func append(_ part: Span<UInt8>) -> Bool {
        let room = Self.maximumBodyBytes - body.count
        body.append(part.extracting(first: min(room, part.count)))
        return part.count >= room || !part.isEmpty && hasReason()
    }

    private mutating func hasReason() -> Bool {
        guard searchCount < Self.maximumSearches,
            body.last(where: { !" \t\r\n".utf8.contains($0) }) == UInt8(ascii: "}")
        else { return false }
        searchCount += 1
        return RefusalBody(body).reason != nil
    }
}
