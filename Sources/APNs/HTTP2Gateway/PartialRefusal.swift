/// An answer other than 200, as far as it has come.
struct PartialRefusal {
    /// Maximum number of bytes of a body that are kept; the rest is dropped. Apple's bodies have about 50 bytes, and a
    /// connection may have thousands of them half read.
    static let maximumBodyBytes = 4096

    let status: Int
    var retryAfter: Duration?
    var body: [UInt8] = []
    /// Whether the answer came to its end. What is missing of an incomplete answer may be its reason or its time.
    var isComplete = false

    /// Whether the body is a whole JSON object with a reason, so that nothing more is awaited.
    var hasReason: Bool {
        guard body.last(where: { !" \t\r\n".utf8.contains($0) }) == UInt8(ascii: "}") else { return false }
        return RefusalBody(body, isComplete: false).reason != nil
    }
}
