/// The rules for requests that break no rule of APNs.
package struct Rules: Sendable, Equatable {
    /// The maximum number of different token prefixes in the outcomes.
    package static let maximumPrefixCount = 64

    /// The delay of an answer: a random time in this range, evenly distributed. Over the binary interface, which
    /// answers only errors, it is the time from a bad notification to its error packet. Notifications that arrive
    /// meanwhile are thrown away.
    package var latency: ClosedRange<Duration> = .zero ... .zero
    /// The outcomes, in order; the first that applies decides. If none applies, the push is accepted.
    package var outcomes: [OutcomeRule] = []
    /// The rules for connections.
    package var connections = ConnectionRules()

    package init(
        latency: ClosedRange<Duration> = .zero ... .zero, outcomes: [OutcomeRule] = [],
        connections: ConnectionRules = ConnectionRules()
    ) {
        self.latency = latency
        self.outcomes = outcomes
        self.connections = connections
    }
}

/// An outcome other than acceptance, and the conditions for it. All given conditions must hold.
package struct OutcomeRule: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        case refuse(Answer)
        /// The request is never answered.
        case silence
    }

    /// An answer to a push.
    package struct Answer: Sendable, Equatable {
        package var status: Int
        /// Sent as `{"reason":…}`; Apple need not document it.
        package var reason: String
        /// Milliseconds since 1970, sent with the reason. A 410 without it has the time of the answer. Over the binary
        /// interface the feedback service reports it, in whole seconds.
        package var timestamp: Int?
        /// Sent as `retry-after`; seconds or an HTTP date.
        package var retryAfter: String?
        /// Sent instead of JSON, as a front end in trouble might do.
        package var rawBody: String?

        package init(
            status: Int, reason: String, timestamp: Int? = nil, retryAfter: String? = nil, rawBody: String? = nil
        ) {
            self.status = status
            self.reason = reason
            self.timestamp = timestamp
            self.retryAfter = retryAfter
            self.rawBody = rawBody
        }

        /// One of Apple's documented reasons, with its status.
        package init(_ refusal: DocumentedReason, timestamp: Int? = nil, retryAfter: String? = nil) {
            self.init(status: refusal.status, reason: refusal.rawValue, timestamp: timestamp, retryAfter: retryAfter)
        }
    }

    package var outcome: Outcome
    /// Applies to tokens whose hexadecimal form begins with this.
    package var tokenPrefix: String?
    /// Applies to this topic; for broadcasts, to this bundle ID.
    package var topic: String?
    /// Applies to broadcasts to this channel.
    package var channel: String?
    /// Applies to this share of all tokens, 0 to 1. A token is either always in it, or never.
    package var share: Double?
    /// Applies to each request with this probability, 0 to 1.
    package var probability: Double?
    /// Applies to the first N requests of each token or channel, not to later ones.
    package var times: Int?

    package init(
        _ outcome: Outcome, tokenPrefix: String? = nil, topic: String? = nil, channel: String? = nil,
        share: Double? = nil,
        probability: Double? = nil, times: Int? = nil
    ) {
        self.outcome = outcome
        self.tokenPrefix = tokenPrefix
        self.topic = topic
        self.channel = channel
        self.share = share
        self.probability = probability
        self.times = times
    }
}

/// The rules for connections. Each connection is counted separately.
package struct ConnectionRules: Sendable, Equatable {
    /// The simulator sends GOAWAY at the Nth request of a connection.
    package var goAwayAfter: Int?
    /// Whether requests that are on their way are still answered (GOAWAY names 2^31-1 first, and the true last stream a
    /// round trip later). Otherwise the last stream is that of the Nth request, and later requests are ignored.
    package var isGoAwayGraceful = true
    /// The simulator resets the connection at the Nth request.
    package var resetAfter: Int?
    /// The simulator sends GOAWAY after this many refusals (4xx). A `BadDeviceToken` counts three times, a 410 not at
    /// all.
    package var endAfterErrors: Int?
    /// The simulator allows one stream at a time after this many refusals in a row, until a push is accepted.
    package var slowAfterErrors: Int?

    package init(
        goAwayAfter: Int? = nil, isGoAwayGraceful: Bool = true, resetAfter: Int? = nil, endAfterErrors: Int? = nil,
        slowAfterErrors: Int? = nil
    ) {
        self.goAwayAfter = goAwayAfter
        self.isGoAwayGraceful = isGoAwayGraceful
        self.resetAfter = resetAfter
        self.endAfterErrors = endAfterErrors
        self.slowAfterErrors = slowAfterErrors
    }
}
