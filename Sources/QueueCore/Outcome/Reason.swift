/// Why a push was refused: a row of `Reason.table`, which says what follows from such an answer of APNs to a push for a
/// device. `broadcasts` (Reason+Broadcasts.swift) says what follows from it for a broadcast.
///
/// Outcome bytes store the code (0...63): codes may be added, but never changed or reused.
package struct Reason: Hashable, Sendable {
    /// The reason's number within an outcome byte.
    package let code: UInt8

    /// The reason with this code; an unknown code becomes `other`.
    package init(code: UInt8) { self.code = Int(code) < Self.table.count ? code : 0 }

    /// The row of this reason.
    package var row: Row { Self.table[Int(code)] }

    /// The reason's text as APNs spells it.
    package var text: String { row.text }

    /// Whom an answer accuses, beside the push.
    package enum Accused: Hashable, Sendable {
        case nobody
        case device
        /// The device, if its token is for pushes of this type.
        case deviceOfKind(PushType)
        /// The same, if the app itself has registered the token for this type.
        case deviceRegistered(for: PushType)
    }

    /// Whom the reason accuses as the answer to a push of this type.
    ///
    /// A push type with a topic of its own also has tokens of its own. If somebody sends such a push to the app's usual
    /// token, APNs may call it bad, or not for the topic, and it stays good for alerts. Of the two kinds of tokens of
    /// Live Activities, which have one topic, nothing is concluded from the topic.
    package func accused(byPushOf type: PushType) -> Accused {
        switch row.action {
        case .deactivate: .device
        case .suspect where type.topicSuffix.isEmpty: .device
        case .suspect where self != .deviceTokenNotForTopic: .deviceOfKind(type)
        case .suspect where type != .liveactivity: .deviceRegistered(for: type)
        default: .nobody
        }
    }

    /// Whether the reason may apply to one topic of the app and not to another, so that it need not blame the
    /// credential.
    package var mayDependOnTopic: Bool { Self.reasonsOfTopics.contains(self) }

    private static let reasonsOfTopics = ["BadTopic", "TopicDisallowed", "Forbidden", "UnrelatedKeyIdInToken"].map(
        named)

    /// What follows from an answer.
    package enum Action: Hashable, Sendable {
        /// The recipient is rejected; device and queue are untouched.
        case reject
        /// The recipient is rejected and its device deactivated, unless its app registered it after the reported time.
        case deactivate
        /// The recipient is rejected and its device is suspect, unless ``accused(byPushOf:)`` says otherwise.
        /// Whether it is deactivated depends on how many other devices of the queue are refused in the same way: if
        /// there are many, the environment or topic is wrong, not the devices.
        case suspect
        /// The push is sent again later, with backoff; an attempt is spent, except during an outage.
        case retry
        /// The push is sent again at once over another connection; no attempt is spent.
        case reconnect
        /// As `reconnect`. If the next connection also refuses a push of the queue, and none was accepted in between,
        /// as `pause`. If others are accepted with the key, as `retry`.
        case reconnectOnce
        /// As `reconnect`, with a new provider token unless the present one is younger than 20 minutes.
        case renewToken
        /// The push is sent again without spending an attempt. The provider token is kept for 20 minutes, but not
        /// beyond an age of 55 minutes. With this key, one push at a time is tried, as in an outage.
        case keepToken
        /// The recipient is given back without spending an attempt, and the queue is paused until its credential is
        /// replaced, or until it is tried again by itself, after 15 minutes to 6 hours.
        case pause
        /// For a broadcast: the broadcast is rejected, and its channel is retired.
        case retireChannel
        /// For a broadcast: as `retry`; other broadcasts to the same channel wait as long.
        case throttleChannel
    }

    /// One row of the table.
    package struct Row: Sendable {
        /// The reason's text as APNs spells it.
        package let text: String
        /// The status that Apple documents for it; 0 for pushq's own reasons.
        package let status: Int
        /// What follows from the reason.
        package let action: Action
        /// Whether to replace the connection that received it.
        package let replacesConnection: Bool
        /// Whether the message is at fault, so that every other recipient would be refused, too.
        package let blamesMessage: Bool

        init(
            _ text: String, _ status: Int, _ action: Action, replacesConnection: Bool = false,
            blamesMessage: Bool = false
        ) {
            self.text = text
            self.status = status
            self.action = action
            self.replacesConnection = replacesConnection
            self.blamesMessage = blamesMessage
        }
    }

    /// All reasons, each at the index that is its code.
    ///
    /// Source: Apple, "Handling notification responses from APNs" and "Handling error responses from APNs" (broadcast).
    package static let table: [Row] = [
        Row("Other", 0, .reject),  // for unknown texts: the status class decides, the raw text is kept

        // 400: the request is wrong.
        Row("BadCollapseId", 400, .reject, blamesMessage: true),
        Row("BadDeviceToken", 400, .suspect),
        Row("BadExpirationDate", 400, .reject, blamesMessage: true),
        Row("BadMessageId", 400, .reject),
        Row("BadPriority", 400, .reject, blamesMessage: true),
        Row("BadTopic", 400, .pause),
        Row("DeviceTokenNotForTopic", 400, .suspect),
        Row("DuplicateHeaders", 400, .reject),
        Row("IdleTimeout", 400, .reconnect, replacesConnection: true),
        Row("InvalidPushType", 400, .reject, blamesMessage: true),
        Row("MissingDeviceToken", 400, .reject),
        Row("MissingTopic", 400, .pause),
        Row("PayloadEmpty", 400, .reject, blamesMessage: true),
        Row("TopicDisallowed", 400, .pause),

        // 403: the credential is wrong.
        Row("BadCertificate", 403, .pause),
        Row("BadCertificateEnvironment", 403, .pause),
        Row("ExpiredProviderToken", 403, .renewToken, replacesConnection: true),
        Row("Forbidden", 403, .pause),
        Row("InvalidProviderToken", 403, .pause),
        Row("MissingProviderToken", 403, .pause),
        Row("UnrelatedKeyIdInToken", 403, .reconnectOnce, replacesConnection: true),
        Row("BadEnvironmentKeyIdInToken", 403, .pause),

        Row("BadPath", 404, .reject),
        Row("MethodNotAllowed", 405, .reject),

        // 410: the token is dead.
        Row("ExpiredToken", 410, .deactivate),
        Row("Unregistered", 410, .deactivate),

        Row("PayloadTooLarge", 413, .reject, blamesMessage: true),

        // 429, 5xx: a transient refusal.
        Row("TooManyProviderTokenUpdates", 429, .keepToken, replacesConnection: true),
        Row("TooManyRequests", 429, .retry),
        Row("InternalServerError", 500, .retry),
        Row("ServiceUnavailable", 503, .retry),
        Row("Shutdown", 503, .reconnect, replacesConnection: true),

        // pushq's own reasons, which stand in for an answer.
        Row("OtherTransient", 0, .retry),  // an unknown reason with a status of 429 or 5xx
        Row("OtherCredential", 0, .pause),  // an unknown reason with a status of 403
        Row("NoAnswer", 0, .retry),  // unanswered too often
        Row("Quarantined", 0, .reject),  // alone in a job that was rescued again and again
        Row("GivenBack", 0, .retry),  // not sent by this worker; continues in a job split off

        // Reasons about channels. `broadcasts` (Reason+Broadcasts.swift) says what follows from them for a broadcast.
        Row("BadChannelId", 400, .reject),
        Row("BadRequestParams", 400, .reject),
        Row("BadRequestPayload", 400, .reject),
        Row("CannotCreateChannelConfig", 400, .reject),
        Row("ChannelNotRegistered", 400, .reject),
        Row("FeatureNotEnabled", 400, .reject),
        Row("MissingChannelId", 400, .reject),
        Row("MissingChannelQueueSize", 400, .reject),
        Row("MissingPushType", 400, .reject),
        Row("TopicMismatch", 403, .pause),

        // Another reason of pushq's own.
        Row("QuietHours", 0, .retry),  // not sent: the device has quiet hours; continues in a job due later
    ]

    /// The reason of an answer.
    ///
    /// A known text alone decides. For an unknown text, the status decides: 410 is `Unregistered`, 403 blames the
    /// credential, 413 is `PayloadTooLarge`, 408, 421, 425, 429 and 5xx are transient, and every other status is final.
    package init(status: Int, text: String?) {
        if let known = text.flatMap(Self.known) {
            self = known
            return
        }
        switch status {
        case 403: self = .otherCredential
        case 410: self = .unregistered
        case 413: self = .payloadTooLarge
        case 408, 421, 425, 429, 500..<600: self = .otherTransient
        default: self = .other
        }
    }

    /// The reason of an answer without a reason. APNs gives a reason with each refusal, so the answer came from a proxy
    /// or from a server that is not APNs. It says nothing about the push, which waits, unless the status alone is
    /// meaningful.
    /// - Parameter isEmpty: whether the answer came to its end without a body either. A page with status 410 must not
    ///   deactivate a device, and a page with status 403, such as a firewall's, does not blame the credential. What was
    ///   cut off may have been such a page.
    package init(status: Int, withoutReason isEmpty: Bool) {
        self =
            switch status {
            case 403 where isEmpty: .otherCredential
            case 410 where isEmpty: .unregistered
            case 413: .payloadTooLarge
            default: .otherTransient
            }
    }

    /// All reasons of the table.
    package static let all = table.indices.map { Reason(code: UInt8($0)) }

    package static let other = Reason(code: 0)
    package static let badDeviceToken = named("BadDeviceToken")
    package static let deviceTokenNotForTopic = named("DeviceTokenNotForTopic")
    package static let unregistered = named("Unregistered")
    package static let payloadTooLarge = named("PayloadTooLarge")
    package static let otherTransient = named("OtherTransient")
    package static let otherCredential = named("OtherCredential")
    package static let noAnswer = named("NoAnswer")
    package static let quarantined = named("Quarantined")
    package static let givenBack = named("GivenBack")
    package static let quietHours = named("QuietHours")

    /// What a server means by this text; nil if the table does not tell. The names of pushq's own reasons have no
    /// meaning in a server's answer.
    package static func known(_ text: String) -> Reason? {
        guard let code = codes[text], table[Int(code)].status != 0 else { return nil }
        return Reason(code: code)
    }

    /// The reason with this text, which must be in the table.
    package static func named(_ text: String) -> Reason {
        guard let code = codes[text] else { fatalError("\(text) is not in the table of reasons") }
        return Reason(code: code)
    }

    private static let codes: [String: UInt8] = {
        var codes = Dictionary(
            uniqueKeysWithValues: table.enumerated().dropFirst().map { ($1.text, UInt8($0)) })
        // The documentation has the first spelling; answers with the second have been seen.
        codes["BadEnvironmentKeyInToken"] = codes["BadEnvironmentKeyIdInToken"]
        // Apple's page on broadcasts spells this one with a space.
        codes["Service Unavailable"] = codes["ServiceUnavailable"]
        return codes
    }()
}
