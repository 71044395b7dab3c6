/// What the simulator does with requests that break no rule of APNs.
package struct Rules: Sendable, Equatable {
    /// How many different token prefixes the outcomes may name.
    package static let maximumPrefixCount = 64

    /// How long an answer takes: a random time between the two, evenly distributed. Over the binary interface, which
    /// answers only errors, it is the time from a bad notification to its error packet; what arrives meanwhile is
    /// thrown away.
    package var latency: ClosedRange<Duration> = .zero ... .zero
    /// Tried in order; the first that applies decides. If none does, the push is accepted.
    package var outcomes: [OutcomeRule] = []
    /// What happens to connections.
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

/// An outcome other than acceptance, and the requests that it is for. All given conditions must hold.
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
        /// Milliseconds since 1970, sent with the reason; for a 410 without it, the time of the answer. Over the binary
        /// interface the feedback service reports it, in whole seconds.
        package var timestamp: Int?
        /// Sent as `retry-after`; seconds or an HTTP date.
        package var retryAfter: String?
        /// Sent instead of JSON, as a front end in trouble might answer.
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
    /// For tokens whose hexadecimal form begins with this.
    package var tokenPrefix: String?
    /// For this topic; for broadcasts, this bundle ID.
    package var topic: String?
    /// For broadcasts to this channel.
    package var channel: String?
    /// For this share of all tokens, 0 to 1; a token is always in it, or never.
    package var share: Double?
    /// For each request with this probability, 0 to 1.
    package var probability: Double?
    /// For the first N requests of each token or channel; later ones are not affected.
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

/// What happens to connections; each one is counted separately.
package struct ConnectionRules: Sendable, Equatable {
    /// GOAWAY at the Nth request of a connection.
    package var goAwayAfter: Int?
    /// Graceful: requests on their way are still answered (2^31-1 first, the true last stream a round trip later).
    /// Otherwise the last stream is that of the Nth request, and later requests are ignored.
    package var isGoAwayGraceful = true
    /// The connection is reset at the Nth request.
    package var resetAfter: Int?
    /// GOAWAY after this many refusals (4xx): a `BadDeviceToken` counts three times, a 410 not at all.
    package var endAfterErrors: Int?
    /// One stream at a time after this many refusals in a row, until a push is accepted.
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
