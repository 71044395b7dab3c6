import QueueCore

@testable import PostgresStore
@testable import Workers

/// Jobs as a claim returns them, for tests without a database.
enum JobFixture {
    static func queue(id: Int32 = 1, maxAttempts: Int = 10) -> QueueState {
        let settings = QueueSettings(
            queueID: id, tenantID: 1, name: QueueName(tenant: "acme", app: "com.acme", environment: .sandbox),
            weight: 1, tenantWeight: 1,
            connections: 4, tenantConnections: nil,
            maxAttempts: maxAttempts, gateway: .http2, derivesCollapseID: true, rate: nil, tenantRate: nil,
            isPaused: false,
            credential: nil)
        return QueueState(settings: settings, now: .now)
    }

    /// A job for the devices 10, 20, 30 …, whose tokens begin with a tenth of their number. The claim also returns the
    /// tokens of `strangers`, as a range scan does.
    static func job(
        recipients: Int, inactive: Set<Int64> = [], strangers: Set<Int64> = [], isAtMostOnce: Bool = false,
        previousWatermark: Int = 0,
        outcomes: [UInt8] = [], attempt: Int = 1, losses: Int = 0, window: Int = 100, isBroadcast: Bool = false,
        isCancelled: Bool = false, isPaused: Bool = false, isElsewhere: Bool = false, statedCount: Int? = nil,
        pushType: PushType = .alert,
        madeAt: Int64 = 0, queueID: Int32 = 1, id: Int64 = 7, rootID: Int64 = 5,
        epoch: Int32 = 1, lane: Lane = .bulk, slot: Int = 0,
        sendWithin: Duration = .seconds(60), capAnswer: CapAnswer? = nil, quietHolds: [Int64: QuietHold] = [:],
        successors: [Int64: Int64] = [:], firstDevice: Int = 1, devices: [Int64]? = nil,
        messageID: Int64 = 3, replacesWaiting: Bool = false, judgedCampaign: Int64? = nil,
        personal: PersonalPayloads? = nil, badgeIncrement: Int? = nil, isContinued: Bool = false,
        now: ContinuousClock.Instant = .now, heldSince: ContinuousClock.Instant? = nil
    ) -> HeldJob {
        let devices = devices ?? (0..<recipients).map { Int64(firstDevice + $0) * 10 }
        let found = Set(devices).subtracting(inactive).union(strangers).sorted()
        let tokens = ByteArrays(found.map { [UInt8(truncatingIfNeeded: $0 / 10), UInt8($0 % 10)] })
        var claim = ClaimedJob(
            key: LeaseKey(queueID: queueID, jobID: id, epoch: epoch), lane: lane,
            message: StoredMessage(
                id: messageID, payload: Array("{}".utf8), pushType: pushType, priority: nil, expiration: .apnsDefault,
                collapseID: nil, isBroadcast: isBroadcast, replacesWaiting: replacesWaiting),
            rootID: rootID, attempt: attempt, losses: losses, isAtMostOnce: isAtMostOnce,
            previousWatermark: previousWatermark,
            outcomes: outcomes, sendWithin: sendWithin, isCancelled: isCancelled, deviceIDs: devices, madeAt: madeAt,
            tokens: RecipientTokens(of: devices, among: found, tokens))
        claim.isPaused = isPaused
        claim.isElsewhere = isElsewhere
        claim.statedCount = statedCount
        claim.capAnswer = capAnswer
        claim.quietHolds = quietHolds
        claim.successors = successors
        claim.judgedCampaign = judgedCampaign
        claim.personal = personal
        claim.badgeIncrement = badgeIncrement
        claim.isContinued = isContinued
        return HeldJob(
            claim, slot: slot, claimedAt: now, heldSince: heldSince, window: window, maximumPayloadBytes: 4096)
    }
}

extension HeldJob.Retry {
    /// The minimum delay of the retry.
    var atLeast: Duration {
        switch delay {
        case .fixed(let delay): delay
        case .backoff(_, _, let least): least
        }
    }
}

extension HeldJob {
    /// Takes all remaining recipients, and returns the token of each.
    func takeTokens() -> [Int: [UInt8]] {
        var tokens: [Int: [UInt8]] = [:]
        while let recipient = takeRecipient() { tokens[recipient.ordinal] = Array(claim.tokens.bytes[recipient.token]) }
        return tokens
    }

    /// Sends to all recipients that may be sent to, and returns their ordinals.
    func sendAll() -> [Int] {
        var ordinals: [Int] = []
        while let recipient = takeRecipient() {
            noteSent()
            ordinals.append(recipient.ordinal)
        }
        return ordinals
    }

    /// Records an answer that accepted the push.
    func accept(_ ordinal: Int, in queue: QueueState = JobFixture.queue()) {
        noteEnded()
        AnswerRules.accepted(ordinal, of: self, in: queue, sentAt: .now)
    }
}
