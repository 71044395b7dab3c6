import Testing

@testable import QueueCore

@Suite struct `A status of the binary interface` {
    @Test(arguments: [
        (BinaryStatus.processingError, "InternalServerError", Reason.Action.retry),
        (.missingDeviceToken, "MissingDeviceToken", .reject), (.missingTopic, "MissingTopic", .pause),
        (.missingPayload, "PayloadEmpty", .reject), (.invalidTokenSize, "BadDeviceToken", .suspect),
        (.invalidTopicSize, "BadTopic", .pause), (.invalidPayloadSize, "PayloadTooLarge", .reject),
        (.invalidToken, "BadDeviceToken", .suspect), (.unknown, "InternalServerError", .retry),
    ])
    func `says what a reason says`(status: BinaryStatus, reason: String, action: Reason.Action) {
        #expect(status.reason.text == reason)
        #expect(status.reason.row.action == action)
        #expect(!status.isAcceptance)
    }

    @Test func `takes the push that it names when the server shuts down`() {
        #expect(BinaryStatus.shutdown.isAcceptance)
        #expect(BinaryStatus.noError.isAcceptance)
    }

    @Test(arguments: [9, 11, 128, 254] as [UInt8])
    func `is final when nobody knows it, and named`(code: UInt8) {
        let status = BinaryStatus(code: code)
        #expect(status.reason == .other)
        #expect(status.reasonText.hasPrefix("binary interface"))
    }
}
