package import QueueCore

/// The limits and times of a gateway. The defaults are those of `docs/apns.md`; tests shorten them.
package struct GatewaySettings: Sendable {
    /// Maximum number of connections. A second one is opened only when the first is saturated, and so on.
    package var maximumConnections = 4
    /// The minimum time between opening one connection and the next, so that the number grows gradually.
    package var growthInterval = Duration.milliseconds(250)
    /// How long a new connection may take for its first answer before another one is opened beside it, if there is more
    /// to send. The next one gets twice that time, and so on.
    package var firstAnswerTime = Duration.milliseconds(500)
    /// The time for looking up the name, connecting and the TLS handshake together.
    package var connectTime = Duration.seconds(10)
    /// After this time without a connection that takes pushes, the server counts as out of reach until there is one:
    /// other workers may reach it.
    package var readyTime = Duration.seconds(2)
    /// How long the server may take to send its first SETTINGS, and to acknowledge those of the client.
    package var settingsTime = Duration.seconds(10)
    /// How long an answer may take. After that the stream is given up as unanswered.
    package var responseTime = Duration.seconds(30)
    /// How long a connection may leave all its requests without an answer before it is set aside; nil: a third of
    /// `responseTime`. If other connections get answers meanwhile, half of that is enough.
    package var silenceTime: Duration?
    /// How long the server may take to end the stream of a push that it has accepted. After that the stream is reset.
    package var endTime = Duration.seconds(1)
    /// After this many requests without an answer a connection is replaced, even if it answers others. A connection
    /// that answers nothing any more is replaced after the first.
    package var maximumUnanswered = 3
    /// How many failures in a row may be the fault of the pushes themselves. A connection is replaced once streams were
    /// refused this many times without an answer in between. If more pushes that were never lost before are reset over
    /// a connection, or have no answer since the gateway's last push was served, the server is to blame.
    package var toleratedFailures = 3
    /// After this time without a byte from the server, a PING tests whether it is there: while requests wait for
    /// answers, and while none do.
    package var pingAfterSilence = Duration.seconds(10)
    package var pingAfterIdle = Duration.seconds(60)
    /// How long the answer to a PING may take.
    package var pingTime = Duration.seconds(15)
    /// A connection without a request for this time is closed; the next request opens one again.
    package var closeAfterIdle = Duration.seconds(3600)
    /// How long a draining connection is kept for the answers to requests in flight.
    package var drainTime = Duration.seconds(30)
    /// A connection that ended earlier than this counts as a failed attempt: APNs considers connections in quick
    /// succession an attack.
    package var stableTime = Duration.seconds(10)
    /// A connection that had nothing to do for this long before it was closed is no failed attempt, even if it was
    /// never used: proxies and firewalls close idle connections. Nor is one whose closing met the next push on its way.
    package var quietTime = Duration.seconds(1)
    /// A connection that the server ended in order (GOAWAY without an error) after an answer is not a failed attempt.
    /// If that happens again and again after fewer answers than this, the pause before the next connection grows, up to
    /// `stableTime`.
    package var answersOfUsefulConnection = 100
    /// The delays between attempts.
    package var backoff = Backoff.connection
    /// Maximum number of bytes that a connection holds unsent. An urgent push cannot overtake the output of a
    /// connection.
    package var maximumUnsentBytes = 256 * 1024

    package init() {}

    /// How often a connection checks its times.
    var checkInterval: Duration {
        [
            .seconds(4), settingsTime, responseTime, silenceTime ?? responseTime, pingAfterSilence, pingAfterIdle,
            pingTime, closeAfterIdle,
        ].min()! / 4
    }
}
