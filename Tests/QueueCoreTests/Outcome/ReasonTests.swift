import QueueCore
import Testing

@Suite struct `What follows from an answer` {
    @Test(arguments: [
        (400, "BadCollapseId", Reason.Action.reject),
        (400, "BadDeviceToken", .suspect),
        (400, "BadExpirationDate", .reject),
        (400, "BadMessageId", .reject),
        (400, "BadPriority", .reject),
        (400, "BadTopic", .pause),
        (400, "DeviceTokenNotForTopic", .suspect),
        (400, "DuplicateHeaders", .reject),
        (400, "IdleTimeout", .reconnect),
        (400, "InvalidPushType", .reject),
        (400, "MissingDeviceToken", .reject),
        (400, "MissingTopic", .pause),
        (400, "PayloadEmpty", .reject),
        (400, "TopicDisallowed", .pause),
        (403, "BadCertificate", .pause),
        (403, "BadCertificateEnvironment", .pause),
        (403, "ExpiredProviderToken", .renewToken),
        (403, "Forbidden", .pause),
        (403, "InvalidProviderToken", .pause),
        (403, "MissingProviderToken", .pause),
        (403, "UnrelatedKeyIdInToken", .reconnectOnce),
        (403, "BadEnvironmentKeyIdInToken", .pause),
        (403, "BadEnvironmentKeyInToken", .pause),
        (404, "BadPath", .reject),
        (405, "MethodNotAllowed", .reject),
        (410, "Unregistered", .deactivate),
        (410, "ExpiredToken", .deactivate),
        (413, "PayloadTooLarge", .reject),
        (429, "TooManyRequests", .retry),
        (429, "TooManyProviderTokenUpdates", .keepToken),
        (500, "InternalServerError", .retry),
        (503, "ServiceUnavailable", .retry),
        (503, "Service Unavailable", .retry),
        (503, "Shutdown", .reconnect),
    ])
    func `is what the table of reasons says`(
        status: Int, text: String, action: Reason.Action
    ) {
        let row = Reason(status: status, text: text).row
        #expect(row.action == action)
        #expect(row.status == status)
    }

    @Test func `replaces the connection where APNs is done with it, and nowhere else`() {
        #expect(
            Reason.table.filter(\.replacesConnection).map(\.text) == [
                "IdleTimeout", "ExpiredProviderToken", "UnrelatedKeyIdInToken", "TooManyProviderTokenUpdates",
                "Shutdown",
            ])
    }

    /// A reason that concerns one recipient says nothing about the other recipients of the job.
    @Test func `blames the message for what all its recipients share`() {
        #expect(
            Reason.table.filter(\.blamesMessage).map(\.text) == [
                "BadCollapseId", "BadExpirationDate", "BadPriority", "InvalidPushType", "PayloadEmpty",
                "PayloadTooLarge",
            ])
    }

    @Test(arguments: [
        "Other", "OtherTransient", "OtherCredential", "NoAnswer", "Quarantined", "GivenBack", "QuietHours",
    ])
    func `goes by the status where a server says one of pushq's own reasons`(text: String) {
        #expect(Reason(status: 400, text: text) == .other)
        #expect(Reason(status: 403, text: text) == .otherCredential)
        #expect(Reason(status: 410, text: text) == .unregistered)
        #expect(Reason(status: 503, text: text) == .otherTransient)
    }

    @Test(arguments: [
        (400, Reason.Action.reject), (402, .reject), (403, .pause), (410, .deactivate), (413, .reject), (418, .reject),
        (408, .retry), (421, .retry), (425, .retry), (429, .retry), (500, .retry), (503, .retry), (520, .retry),
        (599, .retry), (600, .reject), (999, .reject),
    ])
    func `goes by the status where the reason is unknown`(status: Int, action: Reason.Action) {
        #expect(Reason(status: status, text: "SomethingNew").row.action == action)
    }

    /// APNs always gives a reason. Without one, the answer came from a proxy or a server that does not belong to APNs.
    @Test(arguments: [
        (204, Reason.Action.retry), (302, .retry), (400, .retry), (401, .retry), (404, .retry), (405, .retry),
        (413, .reject), (429, .retry), (502, .retry),
    ])
    func `blames no push where an answer gives no reason, except by what its status says`(
        status: Int, action: Reason.Action
    ) {
        for isEmpty in [false, true] {
            #expect(Reason(status: status, withoutReason: isEmpty).row.action == action)
        }
    }

    @Test func `takes no page for the word that a token is dead, or a credential refused`() {
        #expect(Reason(status: 403, withoutReason: true) == .otherCredential)
        #expect(Reason(status: 403, withoutReason: false) == .otherTransient)
        #expect(Reason(status: 410, withoutReason: true) == .unregistered)
        #expect(Reason(status: 410, withoutReason: false) == .otherTransient)
    }

    @Test func `fits into an outcome byte beside its kind, for every reason`() {
        #expect(Reason.table.count <= 64)
        for code in Reason.table.indices.map({ UInt8($0) }) {
            let reason = Reason(code: code)
            let outcomes = [Outcome.rejected(reason), .failed(reason), .retried(reason)]
            let continued: Outcome.Kind = [.givenBack, .quietHours].contains(reason) ? .postponed : .retried
            #expect(outcomes.map(\.kind) == [.rejected, .failed, continued])
            #expect(outcomes.map(\.reason) == [reason, reason, reason])
        }
    }

    @Test func `is stored under numbers that never change`() {
        #expect(Reason.named("BadDeviceToken").code == 2)
        #expect(Reason.named("DeviceTokenNotForTopic").code == 7)
        #expect(Reason.named("ExpiredToken").code == 25)
        #expect(Reason.named("Unregistered").code == 26)
        #expect(Reason.named("Shutdown").code == 32)
        #expect(Reason.givenBack.code == 37)
        #expect(Reason.named("BadChannelId").code == 38)
        #expect(Reason.named("TopicMismatch").code == 47)
    }
}

@Suite struct `What follows from an answer to a broadcast` {
    @Test(arguments: [
        (400, "ChannelNotRegistered", Reason.Action.retireChannel), (400, "FeatureNotEnabled", .reject),
        (400, "MissingChannelId", .reject), (400, "BadChannelId", .reject), (400, "BadRequestParams", .reject),
        (400, "BadRequestPayload", .reject), (400, "MissingPushType", .reject),
        (400, "CannotCreateChannelConfig", .reject), (400, "MissingChannelQueueSize", .reject),
        (400, "TopicDisallowed", .pause), (403, "TopicMismatch", .pause), (403, "ExpiredProviderToken", .renewToken),
        (413, "PayloadTooLarge", .reject), (429, "TooManyRequests", .throttleChannel),
        (429, "TooManyProviderTokenUpdates", .keepToken), (503, "Service Unavailable", .retry),
        (503, "ServiceUnavailable", .retry), (503, "Shutdown", .reconnect),
    ])
    func `is what the table of broadcasts says`(status: Int, text: String, action: Reason.Action) {
        #expect(Reason(status: status, text: text).broadcastAction == action)
    }

    @Test(arguments: [
        (400, "BadDeviceToken"), (400, "DeviceTokenNotForTopic"), (410, "Unregistered"), (410, "ExpiredToken"),
        (410, "Unheard"),
    ])
    func `never touches a device`(status: Int, text: String) {
        #expect(Reason(status: status, text: text).broadcastAction == .reject)
    }

    @Test(arguments: [(403, Reason.Action.pause), (404, .reject), (429, .retry), (500, .retry), (520, .retry)])
    func `goes by the status where the reason is unknown`(status: Int, action: Reason.Action) {
        #expect(Reason(status: status, text: "SomethingNew").broadcastAction == action)
    }

    @Test func `is told for each reason once`() {
        #expect(Set(Reason.broadcasts.map(\.reason)).count == Reason.broadcasts.count)
        #expect(Reason.named("CannotCreateChannelConfig").broadcastMeaning?.contains("delete") == true)
        #expect(Reason.unregistered.broadcastMeaning == nil)
    }
}

@Suite struct `A tally of outcomes` {
    @Test func `counts each recipient once`() {
        let outcomes: [Outcome] = [
            .delivered, .delivered, .rejected(.unregistered), .failed(.otherTransient), .suppressed, .expired,
            .cancelled, .unknown, .retried(.otherTransient), .retried(.noAnswer), .retried(.givenBack),
            .retried(.quietHours),
        ]
        var tally = OutcomeTally()
        for outcome in outcomes { tally.add(outcome) }
        #expect(tally.delivered == 2)
        #expect(
            [tally.rejected, tally.failed, tally.suppressed, tally.expired, tally.cancelled, tally.unknown] == [
                1, 1, 1, 1, 1, 1,
            ])
        #expect([tally.retried, tally.postponed] == [2, 2], "who waits was not refused")
        #expect(tally.ended + tally.retried + tally.postponed == outcomes.count)
    }
}
