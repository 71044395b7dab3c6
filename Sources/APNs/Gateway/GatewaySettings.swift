package import QueueCore

/// The limits and times of a gateway. The defaults are those of `docs/apns.md`; tests shorten them.
package struct GatewaySettings: Sendable {
    /// Connections that are held at most; a second one is opened only when the first is saturated, and so on.
    package var maximumConnections = 4
    /// The least time between opening one connection and the next, so that the number grows gradually.
    package var growthInterval = Duration.milliseconds(250)
    /// How long a connection may take for its first answer before another one is opened beside it, while more waits to be sent; for the
    /// next one twice as long, and so on.
    package var firstAnswerTime = Duration.milliseconds(500)
    /// Looking up the name, connecting and the TLS handshake together.
    package var connectTime = Duration.seconds(10)
    /// How long the server may take for its first SETTINGS, and for acknowledging ours.
    package var settingsTime = Duration.seconds(10)
    /// How long an answer may take; afterwards the stream is given up as unanswered.
    package var responseTime = Duration.seconds(30)
    /// A connection that answers others is replaced after so many requests that it left without an answer; one that answers nothing any
    /// more, after the first.
    package var maximumUnanswered = 3
    /// It is replaced as well when streams were refused so many times, each after the one before, without an answer in between.
    package var maximumRefusalsInARow = 3
    /// After so long without a byte from the server, a PING asks whether it is there: while requests wait for answers, and else.
    package var pingAfterSilence = Duration.seconds(10)
    package var pingAfterIdle = Duration.seconds(60)
    /// How long the answer to a PING may take.
    package var pingTime = Duration.seconds(15)
    /// A connection without a request for so long is closed; the next request opens one again.
    package var closeAfterIdle = Duration.seconds(3600)
    /// How long a connection that takes no new requests is kept for the answers that are still due.
    package var drainTime = Duration.seconds(30)
    /// A connection that ended earlier than this counts as a failed attempt: APNs takes a quick succession of connections for an
    /// attack.
    package var stableTime = Duration.seconds(10)
    /// The delays between attempts.
    package var backoff = Backoff.connection
    /// Bytes that a connection holds unsent, at most; what has left the process cannot be passed by an urgent push any more.
    package var maximumUnsentBytes = 256 * 1024

    package init() {}

    /// How often a connection looks at its clocks.
    var checkInterval: Duration {
        [.seconds(4), settingsTime, responseTime, pingAfterSilence, pingAfterIdle, pingTime, closeAfterIdle].min()! / 4
    }
}
