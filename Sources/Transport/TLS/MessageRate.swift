/// Notices a peer that sends messages of TLS itself in a flood. Each costs this side as much as a request, and brings
/// nothing. Servers send a few tickets at the start of a connection, and new keys after millions of records.
struct MessageRate {
    /// The maximum number in a second.
    static let limit = 1000

    /// When the second began, in nanoseconds of the loop, and how many messages had come before.
    private var begun: UInt64 = 0
    private var countBefore = 0
    private var lastCount = 0

    /// Whether too many have come within this second.
    /// - Parameter count: how many have come in all.
    mutating func isExceeded(by count: Int, now: UInt64) -> Bool {
        guard count != lastCount else { return false }
        if now &- begun >= 1_000_000_000 { (begun, countBefore) = (now, lastCount) }
        lastCount = count
        return count - countBefore > Self.limit
    }
}
