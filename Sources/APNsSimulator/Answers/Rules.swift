/// What the simulator does with requests that break no rule of APNs.
package struct Rules: Sendable, Equatable {
    /// How many different token prefixes the outcomes may name.
    package static let maximumPrefixCount = 64

    /// How long an answer takes: each time something between the two, evenly spread. Over the binary interface, which
    /// answers nothing but errors, it is from a bad notification to its error packet; what arrives meanwhile is thrown
    /// away.
    package var latency: ClosedRange<Duration> = .zero ... .zero
    /// Tried in order; the first that applies decides. When none does, the push is accepted.
    package var outcomes: [OutcomeRule] = []
    /// What becomes of connections.
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

/// An outcome other than acceptance, and for which requests. All conditions that are set must hold.
package struct OutcomeRule: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        case refuse(Answer)
        /// The request is never answered.
        case silence
    }

    /// An answer as it goes out.
    package struct Answer: Sendable, Equatable {
        package var status: Int
        /// Sent as `{"reason":…}`; may be one that Apple does not document.
        package var reason: String
        /// Milliseconds since 1970, sent beside the reason; for a 410 without one, the time of the answer. Over the
        /// binary interface the feedback service gives it, in whole seconds.
        package var timestamp: Int?
        /// Sent as `retry-after`; seconds or an HTTP date.
        package var retryAfter: String?
        /// Sent instead of JSON: what a front end in trouble might answer.
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

        /// One of Apple's, with its status.
        package init(_ refusal: DocumentedReason, timestamp: Int? = nil, retryAfter: String? = nil) {
            self.init(status: refusal.status, reason: refusal.rawValue, timestamp: timestamp, retryAfter: retryAfter)
        }
    }

    package var outcome: Outcome
    /// For tokens whose hexadecimal form begins so.
    package var tokenPrefix: String?
    /// For this topic; of broadcasts, for this bundle ID.
    package var topic: String?
    /// For broadcasts to this channel.
    package var channel: String?
    /// For this share of all tokens, 0 to 1; a token is either always in it or never.
    package var share: Double?
    /// For each request with this probability, 0 to 1.
    package var probability: Double?
    /// For the first so many requests of each token or channel, after which the rule leaves it alone.
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

/// What becomes of connections, each counted by itself.
package struct ConnectionRules: Sendable, Equatable {
    /// GOAWAY at the so-many-th request of a connection.
    package var goAwayAfter: Int?
    /// Graceful: what is on its way is still answered (2^31-1 first, the true last stream a round trip later).
    /// Otherwise the last stream is the request that set it off, and later ones are passed over.
    package var isGoAwayGraceful = true
    /// The connection is dropped without a word at the so-many-th request.
    package var resetAfter: Int?
    /// GOAWAY after so many refusals (4xx): a `BadDeviceToken` counts three times, a 410 not at all.
    package var endAfterErrors: Int?
    /// One stream at a time after so many refusals in a row, until a push is accepted.
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
