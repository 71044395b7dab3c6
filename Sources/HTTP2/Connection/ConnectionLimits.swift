/// Bounds on what a peer can make a connection hold or do. An impostor may sit behind a proxy, and a faulty server
/// floods as well as a hostile one.
package struct ConnectionLimits: Sendable {
    /// Frames a second that are let pass in the long run, and how many at once.
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

    /// The most streams a client opens at once, whatever the server allows.
    package var openStreamCount = 4096
    /// One header list when read (HPACK bombs, CVE-2016-6581; many tiny indexed fields, CVE-2026-49975).
    package var headerList = HPACKDecoder.Limits()
    /// One header block as sent, and the frames it comes in (CONTINUATION floods, VU#421644).
    package var headerBlockByteCount = 32 * 1024
    package var continuationCount = 8
    /// PING, SETTINGS, PRIORITY, unknown frames and 1xx beyond the next limit (CVE-2019-9512, -9515). Each answer earns
    /// a few.
    package var controlFrames = Rate(perSecond: 500, burst: 1000)
    /// Interim responses (1xx) to one request.
    package var interimResponseCount: UInt8 = 8
    /// Frames without content and frames on streams that are gone (CVE-2019-9518).
    package var emptyFrames = Rate(perSecond: 2000, burst: 10_000)
    /// RST_STREAM (CVE-2019-9514, CVE-2023-44487).
    package var resets = Rate(perSecond: 1000, burst: 10_000)
    /// WINDOW_UPDATE, which some servers send for each DATA frame, twice.
    package var windowUpdates = Rate(perSecond: 500_000, burst: 500_000)
    /// Answers to PING and SETTINGS that wait in the output because the peer does not read (CVE-2019-9517).
    package var unreadAnswerCount = 1000
    /// How much of GOAWAY's debug data is handed on.
    package var goAwayDebugByteCount = 4096
    /// The window for everything the peer sends on the connection. It is given back as it is used.
    package var connectionWindowSize = 65_535

    /// A PING, or a frame of an unknown kind, for each part of an answer.
    static let controlFramesPerAnswer: UInt64 = 4

    package init() {}
}
