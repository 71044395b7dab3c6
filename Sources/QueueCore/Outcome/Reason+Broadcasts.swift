extension Reason {
    /// The meaning of a reason in an answer to a broadcast or to a request about channels.
    package struct BroadcastRow: Sendable {
        /// The reason, by its text in ``Reason/table``.
        package let reason: Reason
        /// The action that follows for a broadcast.
        package let action: Action
        /// The meaning, for the person who has to act on it.
        package let meaning: String

        fileprivate init(_ text: String, _ action: Action, _ meaning: String) {
            reason = .named(text)
            self.action = action
            self.meaning = meaning
        }
    }

    /// Every reason that Apple documents for broadcasts and for the management of channels. A channel has no device, so
    /// none of these actions changes one. After a transient refusal, only the channel waits.
    ///
    /// `FeatureNotEnabled` does not pause the queue: its pushes to devices do not need the capability.
    ///
    /// Source: Apple, "Handling error responses from APNs" (broadcast).
    package static let broadcasts: [BroadcastRow] = [
        BroadcastRow("BadChannelId", .reject, "the channel ID is not one that Apple gave"),
        BroadcastRow("BadExpirationDate", .reject, "the expiration does not go with the channel's policy"),
        BroadcastRow("BadMessageId", .reject, "the request ID is not a UUID"),
        BroadcastRow("BadPriority", .reject, "the priority is not 10, 5 or 1"),
        BroadcastRow("BadRequestParams", .reject, "a parameter of the request is wrong"),
        BroadcastRow("BadRequestPayload", .reject, "the body of the request is wrong"),
        BroadcastRow(
            "CannotCreateChannelConfig", .reject,
            "the app has as many channels as Apple allows: delete those not in use"),
        BroadcastRow("ChannelNotRegistered", .retireChannel, "there is no such channel, or it was deleted"),
        BroadcastRow(
            "FeatureNotEnabled", .reject,
            "the app may not broadcast: switch the broadcast capability on for its App ID in the developer portal"),
        BroadcastRow("InvalidPushType", .reject, "channels take Live Activities only"),
        BroadcastRow("MissingChannelId", .reject, "the channel ID is missing"),
        BroadcastRow("MissingChannelQueueSize", .reject, "the storage policy is missing or wrong"),
        BroadcastRow("MissingPushType", .reject, "the push type is missing"),
        BroadcastRow("PayloadEmpty", .reject, "the payload is empty"),
        BroadcastRow("TopicDisallowed", .pause, "the credential is not for this app, or the bundle ID has a suffix"),

        BroadcastRow("BadCertificate", .pause, "the certificate is wrong"),
        BroadcastRow("BadCertificateEnvironment", .pause, "the certificate is for the other environment"),
        BroadcastRow("ExpiredProviderToken", .renewToken, "the provider token is too old, or a clock is wrong"),
        BroadcastRow("InvalidProviderToken", .pause, "the signing key, its ID or its team is wrong"),
        BroadcastRow("MissingProviderToken", .pause, "the request carries no credential"),
        BroadcastRow("TopicMismatch", .pause, "the credential is for another app"),

        BroadcastRow("BadPath", .reject, "the path of the request is wrong"),
        BroadcastRow("MethodNotAllowed", .reject, "the method of the request is wrong"),
        BroadcastRow("PayloadTooLarge", .reject, "the payload is larger than 5120 bytes"),

        BroadcastRow("TooManyProviderTokenUpdates", .keepToken, "the provider token changes too often"),
        BroadcastRow("TooManyRequests", .throttleChannel, "the channel gets updates faster than Apple takes them"),
        BroadcastRow("InternalServerError", .retry, "APNs failed"),
        BroadcastRow("ServiceUnavailable", .retry, "APNs is overloaded"),
        BroadcastRow("Shutdown", .reconnect, "this server of APNs is going away"),
    ]

    /// The action that follows for a broadcast. A reason that Apple does not document there follows ``table``, except
    /// that no device changes: a channel has none.
    package var broadcastAction: Action {
        if let row = Self.broadcastRows[self] { return row.action }
        switch row.action {
        case .deactivate, .suspect: return .reject
        case let action: return action
        }
    }

    /// The meaning in an answer to a request about a channel; nil for reasons that Apple does not document there.
    package var broadcastMeaning: String? { Self.broadcastRows[self]?.meaning }

    private static let broadcastRows = Dictionary(uniqueKeysWithValues: broadcasts.map { ($0.reason, $0) })
}
