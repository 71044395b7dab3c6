/// The limits on what a peer can make a connection hold or do. An impostor may be behind a proxy, and a faulty server
/// can flood like a hostile one.
package struct ConnectionLimits: Sendable {
    /// The number of frames that are allowed per second in the long run, and at once.
    package struct Rate: Sendable {
        package var perSecond: Int
        package var burst: Int

        package init(perSecond: Int, burst: Int) {
            precondition(
                perSecond > 0 && perSecond <= 1_000_000_000 && burst > 0, "A rate is at least one a second.")
            self.perSecond = perSecond
            self.burst = burst
        }
    }

    /// The maximum number of streams that a client opens at once, whatever the server allows.
    package var openStreamCount = 4096
    /// The limits of one decoded header list (HPACK bombs, CVE-2016-6581; many tiny indexed fields, CVE-2026-49975).
    package var headerList = HPACKDecoder.Limits()
    /// The size of one encoded header block, and the number of its CONTINUATION frames (CONTINUATION floods,
    /// VU#421644).
    package var headerBlockByteCount = 32 * 1024
    package var continuationCount = 32
    /// The rate of PING, SETTINGS, PRIORITY, unknown frames, and 1xx beyond the next limit (CVE-2019-9512, -9515). Each
    /// answer earns a few of them.
    package var controlFrames = Rate(perSecond: 500, burst: 1000)
    /// The number of interim responses (1xx) to one request.
    package var interimResponseCount: UInt8 = 8
    /// The rate of frames without content and of frames on closed streams (CVE-2019-9518).
    package var emptyFrames = Rate(perSecond: 2000, burst: 10_000)
    /// The rate of RST_STREAM (CVE-2019-9514, CVE-2023-44487).
    package var resets = Rate(perSecond: 1000, burst: 10_000)
    /// The rate of WINDOW_UPDATE, which some servers send twice for each DATA frame.
    package var windowUpdates = Rate(perSecond: 500_000, burst: 500_000)
    /// The maximum number of answers to PING and SETTINGS that wait in the output because the peer does not read
    /// (CVE-2019-9517).
    package var unreadAnswerCount = 1000
    /// The maximum size of GOAWAY's debug data that the handler gets.
    package var goAwayDebugByteCount = 4096
    /// The window for everything that the peer sends on the connection. Received octets are given back.
    package var connectionWindowSize = 65_535

    /// How many control frames an answer earns: a PING, or a frame of an unknown kind, for each of its parts.
    static let controlFramesPerAnswer: UInt64 = 4

    package init() {}
}
