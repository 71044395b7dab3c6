import APNs
import QueueCore
import Testing

@testable import PostgresStore
@testable import Workers

@Suite struct `What an answer does to a recipient` {
    private func refused(
        _ ordinal: Int, of job: HeldJob, in queue: QueueState = JobFixture.queue(), _ refusal: Refusal,
        sentAt: ContinuousClock.Instant = .now, spendsAttempts: Bool = true, isRare: Bool = false,
        isOfFormerCredential: Bool = false, lastAcceptedAt: ContinuousClock.Instant? = nil
    ) -> AnswerRules.Consequence {
        job.noteEnded()
        return AnswerRules.refused(
            ordinal, of: job, in: queue, refusal,
            .init(
                sentAt: sentAt, now: .now, spendsAttempts: spendsAttempts, isRare: isRare,
                isOfFormerCredential: isOfFormerCredential, lastAcceptedAt: lastAcceptedAt))
    }

    private func sent(_ job: HeldJob) -> HeldJob {
        _ = job.sendAll()
        return job
    }

    @Test func `a dead token is rejected and reported with its time, in microseconds`() {
        let job = sent(JobFixture.job(recipients: 1))
        let refusal = Refusal(status: 410, text: "Unregistered", deadSinceMilliseconds: 1_458_114_061_260)
        #expect(refused(0, of: job, refusal) == .none)
        #expect(job.outcomes.map(Outcome.init) == [.rejected(.unregistered)])
        #expect(job.reports.map(\.reportedAt) == [1_458_114_061_260_000])
        #expect(job.reports.map(\.deviceID) == [10])
    }

    @Test(arguments: [PushType.voip, .liveactivity, .complication, .widgets])
    func `a token that is not for a push type's own topic accuses only a device that is registered for it`(
        type: PushType
    ) {
        let job = sent(JobFixture.job(recipients: 3, pushType: type))
        let refusal = Refusal(status: 400, text: "DeviceTokenNotForTopic")
        #expect(refused(0, of: job, refusal) == .none)
        #expect(Outcome(rawValue: job.outcomes[0]) == .rejected(.deviceTokenNotForTopic))
        #expect(job.reports.map(\.accused) == (type == .liveactivity ? [] : [.deviceRegistered(for: type)]))
        _ = refused(1, of: job, Refusal(status: 400, text: "BadDeviceToken"))
        #expect(job.reports.last?.deviceID == 20)
        #expect(job.reports.last?.accused == .deviceOfKind(type), "the app's usual token may be called bad, too")
        let alert = sent(JobFixture.job(recipients: 1))
        _ = refused(0, of: alert, refusal)
        #expect(alert.reports.map(\.deviceID) == [10])
    }

    @Test func `an update of a Live Activity that is to be sent once more is claimed anew, for a newer one`() {
        let job = sent(JobFixture.job(recipients: 4, pushType: .liveactivity))
        AnswerRules.untouched(0, of: job)
        AnswerRules.unanswered(1, of: job)
        #expect(refused(2, of: job, Refusal(status: 403, text: "ExpiredProviderToken")) == .renewToken)
        _ = refused(3, of: job, Refusal(status: 503, text: "Shutdown"))
        #expect(job.sendAll().isEmpty)
        #expect(job.retries.map(\.deviceID) == [10, 20, 30, 40])
        #expect(job.retries.map(\.losses) == [0, 1, 0, 0])
        #expect(job.retries.map(\.attempts) == [0, 0, 0, 0])
        #expect(job.waiting == 0)
    }

    @Test func `what goes on in another job tells whether it was answered, lost, or not taken`() {
        let token = Refusal(status: 403, text: "InvalidProviderToken")
        let alerts = sent(JobFixture.job(recipients: 5))
        _ = refused(0, of: alerts, Refusal(status: 410, text: "Unregistered"))
        AnswerRules.unanswered(1, of: alerts)
        _ = refused(2, of: alerts, token)
        AnswerRules.untouched(3, of: alerts)
        // Refused, sent again, and lost.
        _ = refused(4, of: alerts, token)
        AnswerRules.unanswered(4, of: alerts)
        alerts.splitWaiting(after: .zero)
        #expect(
            alerts.outcomes.map(Outcome.init) == [
                .rejected(.unregistered), .retried(.noAnswer), .retried(token.reason), .retried(.givenBack),
                .retried(.noAnswer),
            ])

        let updates = sent(JobFixture.job(recipients: 3, pushType: .liveactivity))
        let expired = Refusal(status: 403, text: "ExpiredProviderToken")
        AnswerRules.untouched(0, of: updates)
        AnswerRules.unanswered(1, of: updates)
        _ = refused(2, of: updates, expired)
        #expect(
            updates.outcomes.map(Outcome.init) == [
                .retried(.givenBack), .retried(.noAnswer), .retried(expired.reason),
            ])

        let calls = sent(JobFixture.job(recipients: 1, pushType: .voip))
        let topic = Refusal(status: 400, text: "TopicDisallowed")
        _ = refused(0, of: calls, topic)
        #expect(calls.outcomes.map(Outcome.init) == [.retried(topic.reason)])
    }

    @Test func `a transient refusal goes on in another job and spends an attempt`() {
        let job = sent(JobFixture.job(recipients: 1, attempt: 3))
        _ = refused(0, of: job, Refusal(status: 503, text: "ServiceUnavailable", retryAfter: .seconds(9)))
        #expect(job.retries.map(\.attempts) == [1])
        #expect(job.retries.map(\.delay) == [.backoff(.refusal, step: 3, atLeast: .seconds(9))])
    }

    @Test func `a rare transient refusal is sent again soon, and not before the server's retry-after`() {
        let job = sent(JobFixture.job(recipients: 3))
        let refusal = Refusal(status: 503, text: "ServiceUnavailable", retryAfter: .seconds(9))
        _ = refused(0, of: job, refusal, isRare: true)
        _ = refused(1, of: job, refusal, isRare: false)
        let least = Duration.seconds(9)
        #expect(
            job.retries.map(\.delay) == [
                .backoff(.rareRefusal, step: 1, atLeast: least), .backoff(.refusal, step: 1, atLeast: least),
            ])
        // A GOAWAY with a reason, or the fourth such answer: what else the server accepts is unknown.
        for _ in 0..<4 {
            _ = refused(2, of: job, Refusal(status: 503, text: "Shutdown"), isRare: true)
            _ = job.sendAll()
        }
        #expect(job.retries.dropFirst(2).map(\.delay) == [.backoff(.refusal, step: 1)])
    }

    @Test func `a transient refusal does not hide an earlier send that stayed unanswered`() {
        let job = sent(JobFixture.job(recipients: 1))
        AnswerRules.unanswered(0, of: job)
        #expect(job.sendAll() == [0])
        _ = refused(0, of: job, Refusal(status: 503, text: "ServiceUnavailable"))
        #expect(job.retries.map(\.losses) == [1])
        #expect(job.retries.map(\.attempts) == [1])
    }

    @Test func `a transient refusal fails with its reason when the attempts are used up`() {
        let job = sent(JobFixture.job(recipients: 1, attempt: 4))
        _ = refused(0, of: job, in: JobFixture.queue(maxAttempts: 4), Refusal(status: 500, text: "InternalServerError"))
        #expect(job.outcomes.map(Outcome.init) == [.failed(.named("InternalServerError"))])
    }

    @Test func `a fault of the credential holds the recipient and pauses the queue`() {
        let job = sent(JobFixture.job(recipients: 1))
        let consequence = refused(0, of: job, Refusal(status: 403, text: "InvalidProviderToken"))
        #expect(consequence == .pauseQueue(.named("InvalidProviderToken")))
        #expect(job.outcomes == [0])
        #expect(job.isSendable)
    }

    @Test(arguments: ["TopicDisallowed", "BadTopic", "Forbidden"])
    func `a topic of a push type's own that is refused while others are accepted pauses nothing`(text: String) {
        let (queue, start) = (JobFixture.queue(), ContinuousClock.now)
        let refusal = Refusal(status: 400, text: text)
        let calls = sent(JobFixture.job(recipients: 3, pushType: .voip))
        #expect(refused(0, of: calls, in: queue, refusal, sentAt: start) == .none)
        #expect(calls.retries.map(\.attempts) == [0], "others get the time to be accepted")
        #expect(refused(1, of: calls, in: queue, refusal, sentAt: start) == .none)
        let alerts = sent(JobFixture.job(recipients: 1))
        alerts.accept(0, in: queue)
        #expect(refused(2, of: calls, in: queue, refusal, sentAt: start + .seconds(3)) == .none)
        #expect(Outcome(rawValue: calls.outcomes[2]) == .rejected(refusal.reason))
    }

    @Test func `a topic of a push type's own that is refused beside pushes that are accepted pauses nothing`() {
        let (queue, start) = (JobFixture.queue(), ContinuousClock.now)
        let refusal = Refusal(status: 400, text: "TopicDisallowed")
        // These pushes were sent together, before the refusal came.
        let (calls, alerts) = (
            sent(JobFixture.job(recipients: 2, pushType: .voip)), sent(JobFixture.job(recipients: 1))
        )
        #expect(refused(0, of: calls, in: queue, refusal, sentAt: start) == .none)
        AnswerRules.accepted(0, of: alerts, in: queue, sentAt: start + .milliseconds(1))
        #expect(refused(1, of: calls, in: queue, refusal, sentAt: start + .seconds(3)) == .none)
        #expect(Outcome(rawValue: calls.outcomes[1]) == .rejected(refusal.reason))
        // The alert was accepted a moment before.
        let other = JobFixture.queue()
        AnswerRules.accepted(
            0, of: sent(JobFixture.job(recipients: 1)), in: other, sentAt: start - .seconds(1))
        let late = sent(JobFixture.job(recipients: 2, pushType: .voip))
        #expect(refused(0, of: late, in: other, refusal, sentAt: start) == .none)
        #expect(refused(1, of: late, in: other, refusal, sentAt: start + .seconds(3)) == .none)
        #expect(Outcome(rawValue: late.outcomes[1]) == .rejected(refusal.reason))
    }

    @Test func `a topic of a push type's own that is refused while nothing is accepted pauses the queue`() {
        let (queue, start) = (JobFixture.queue(), ContinuousClock.now)
        let refusal = Refusal(status: 400, text: "TopicDisallowed")
        for _ in 0..<2 {
            let calls = sent(JobFixture.job(recipients: 2, pushType: .voip))
            #expect(refused(0, of: calls, in: queue, refusal, sentAt: start) == .none)
            #expect(
                refused(1, of: calls, in: queue, refusal, sentAt: start + .seconds(3)) == .pauseQueue(refusal.reason))
            #expect(calls.isSendable)
        }
    }

    @Test func `the app's own topic that is refused pauses the queue, whatever else was accepted`() {
        let queue = JobFixture.queue()
        let calls = sent(JobFixture.job(recipients: 1, pushType: .voip))
        calls.accept(0, in: queue)
        let refusal = Refusal(status: 400, text: "TopicDisallowed")
        let alerts = sent(JobFixture.job(recipients: 1))
        #expect(refused(0, of: alerts, in: queue, refusal) == .pauseQueue(refusal.reason))
    }

    /// A call was once lost because the previous key had still been accepted for alerts.
    @Test(arguments: [("TopicDisallowed", PushType.voip), ("UnrelatedKeyIdInToken", .alert)])
    func `what a replaced credential is answered says nothing of the present one`(text: String, type: PushType) {
        let (queue, start) = (JobFixture.queue(), ContinuousClock.now)
        let refusal = Refusal(status: 403, text: text)
        let calls = sent(JobFixture.job(recipients: 3, pushType: type))
        #expect(refused(0, of: calls, in: queue, refusal, sentAt: start, isOfFormerCredential: true) == .none)
        #expect(calls.outcomes[0] == 0 && calls.retries.isEmpty, "it is sent again at once")
        #expect(refused(1, of: calls, in: queue, refusal, sentAt: start) == .none, "the first of this credential")
        let alerts = sent(JobFixture.job(recipients: 1))
        AnswerRules.accepted(
            0, of: alerts, in: queue, isOfFormerCredential: true, sentAt: start + .seconds(1))
        #expect(alerts.outcomes.map(Outcome.init) == [.delivered])
        #expect(refused(2, of: calls, in: queue, refusal, sentAt: start + .seconds(3)) == .pauseQueue(refusal.reason))
    }

    @Test func `an expired provider token is renewed, and the push sent again`() {
        let job = sent(JobFixture.job(recipients: 1))
        #expect(refused(0, of: job, Refusal(status: 403, text: "ExpiredProviderToken")) == .renewToken)
        #expect(job.isSendable)
    }

    @Test(arguments: [PushType.alert, .liveactivity])
    func `a push whose token counts as expired while others are accepted spends its attempts`(type: PushType) {
        let expired = Refusal(status: 403, text: "ExpiredProviderToken")
        let (job, start) = (sent(JobFixture.job(recipients: 2, pushType: type)), ContinuousClock.now)
        #expect(refused(0, of: job, expired, lastAcceptedAt: start - .seconds(1)) == .renewToken)
        #expect(refused(1, of: job, expired) == .renewToken, "nothing was accepted yet")
        #expect(job.retries.allSatisfy { $0.attempts == 0 })
        // An update comes again in another job.
        let again = sent(type == .alert ? job : JobFixture.job(recipients: 2, pushType: type))
        #expect(refused(0, of: again, expired, sentAt: start, lastAcceptedAt: .now) == .none)
        #expect(again.retries.map(\.attempts) == [1])

        let later = sent(JobFixture.job(recipients: 2, attempt: 2, pushType: type))
        #expect(refused(0, of: later, expired, sentAt: start, lastAcceptedAt: .now) == .none)
        #expect(later.retries.map(\.attempts) == [1])
    }

    @Test func `a refused stream sends the push again at once, and counts as a transient refusal after that`() {
        let job = sent(JobFixture.job(recipients: 2, isAtMostOnce: true))
        job.noteEnded()
        let queue = JobFixture.queue()
        #expect(AnswerRules.streamRefused(0, of: job, in: queue, now: .now) == nil)
        #expect(job.isSendable && job.wasRefused(0) && !job.wasRefused(1))
        let refusal = AnswerRules.streamRefused(0, of: job, in: queue, now: .now)
        #expect(refusal?.reason == .otherTransient)
        #expect(job.returned.isEmpty, "a job that is given back uses no attempt")
    }

    @Test func `an update whose stream is refused, or its connection ended, uses an attempt only if that is repeated`()
    {
        let (queue, start) = (JobFixture.queue(), ContinuousClock.now)
        /// The update comes again in another job.
        func update() -> HeldJob { sent(JobFixture.job(recipients: 2, pushType: .liveactivity)) }
        let first = update()
        for ordinal in [0, 1] { #expect(AnswerRules.streamRefused(ordinal, of: first, in: queue, now: start) == nil) }
        #expect(first.retries.map(\.attempts) == [0, 0] && !first.isSendable)
        #expect(AnswerRules.streamRefused(0, of: update(), in: queue, now: start + .seconds(1)) != nil)
        #expect(AnswerRules.streamRefused(0, of: update(), in: queue, now: start + .seconds(90)) == nil)

        let shutdown = Refusal(status: 503, text: "Shutdown")
        let attempts = (0..<4).flatMap { _ in
            let job = update()
            _ = refused(1, of: job, in: queue, shutdown)
            return job.retries.map(\.attempts)
        }
        #expect(attempts == [0, 0, 0, 1])
    }

    @Test func `too many token updates are a fault of the key: no attempt is spent, and the token stays`() {
        let job = sent(JobFixture.job(recipients: 1, attempt: 4))
        let refusal = Refusal(status: 429, text: "TooManyProviderTokenUpdates")
        #expect(refused(0, of: job, in: JobFixture.queue(maxAttempts: 4), refusal) == .keepToken)
        #expect(job.retries.isEmpty)
        #expect(job.outcomes == [0])
        #expect(job.isSendable)
    }

    @Test
    func `an unrelated key is tried over another connection, then the queue pauses, whatever job meets it`() {
        let queue = JobFixture.queue()
        let refusal = Refusal(status: 403, text: "UnrelatedKeyIdInToken")
        let job = sent(JobFixture.job(recipients: 2))
        let start = ContinuousClock.now
        #expect(refused(0, of: job, in: queue, refusal, sentAt: start) == .none)
        #expect(
            refused(1, of: job, in: queue, refusal, sentAt: start) == .none,
            "it was on its way over the same connection")
        #expect(job.outcomes == [0, 0])
        #expect(job.retries.isEmpty)
        // The same push after it was given back and claimed again.
        let again = sent(JobFixture.job(recipients: 2))
        #expect(refused(1, of: again, in: queue, refusal) == .pauseQueue(.named("UnrelatedKeyIdInToken")))
        #expect(again.outcomes == [0, 0])
        #expect(again.retries.isEmpty)
    }

    @Test func `a push that is refused so while others are taken spends its attempts`() {
        let queue = JobFixture.queue()
        let refusal = Refusal(status: 403, text: "UnrelatedKeyIdInToken")
        let job = sent(JobFixture.job(recipients: 3))
        #expect(refused(0, of: job, in: queue, refusal, sentAt: .now) == .none)
        AnswerRules.accepted(1, of: job, in: queue, sentAt: .now)
        #expect(refused(0, of: job, in: queue, refusal, sentAt: .now) == .none)
        #expect(job.retries.map(\.attempts) == [1])
    }

    @Test func `a refusal about one device delays that device alone`() {
        let job = sent(JobFixture.job(recipients: 4))
        job.accept(0)
        _ = refused(1, of: job, Refusal(status: 429, text: "TooManyRequests"))
        job.accept(3)
        #expect(job.retries.map(\.deviceID) == [20])
        #expect(job.outcomes.map(Outcome.init)[0] == .delivered)
        #expect(job.outcomes.map(Outcome.init)[3] == .delivered)
        #expect(!job.isSendable)
    }

    @Test func `Shutdown sends the push over another connection, but not for ever`() {
        let job = sent(JobFixture.job(recipients: 1))
        for _ in 0..<3 {
            _ = refused(0, of: job, Refusal(status: 503, text: "Shutdown"))
            #expect(job.sendAll() == [0])
        }
        _ = refused(0, of: job, Refusal(status: 503, text: "Shutdown"))
        #expect(job.retries.map(\.attempts) == [1])
        let later = sent(JobFixture.job(recipients: 1, attempt: 2))
        _ = refused(0, of: later, Refusal(status: 503, text: "Shutdown"))
        #expect(later.retries.map(\.attempts) == [1], "each further attempt ends one connection")
    }

    @Test
    func `Shutdown spends an attempt of a push whose job is given back, or it would come again for ever`() {
        let job = sent(JobFixture.job(recipients: 3, attempt: 2))
        _ = refused(1, of: job, Refusal(status: 503, text: "Shutdown"))
        job.accept(2)
        job.close(.yielded(after: .zero))
        AnswerRules.spendAttemptsOfReturned(of: job, in: JobFixture.queue())
        #expect(job.retries.map(\.deviceID) == [20])
        #expect(job.retries.map(\.attempts) == [1])
        #expect(!job.canBeYielded)

        let last = sent(JobFixture.job(recipients: 1, attempt: 4))
        _ = refused(0, of: last, in: JobFixture.queue(maxAttempts: 4), Refusal(status: 503, text: "Shutdown"))
        AnswerRules.spendAttemptsOfReturned(of: last, in: JobFixture.queue(maxAttempts: 4))
        #expect(last.outcomes.map(Outcome.init) == [.failed(.named("Shutdown"))])
    }

    @Test
    func `a transient refusal spends no attempt during an outage, however many come, and keeps its retry-after`() {
        let job = sent(JobFixture.job(recipients: 1, attempt: 4))
        let refusal = Refusal(status: 503, text: "ServiceUnavailable", retryAfter: .seconds(90))
        _ = refused(0, of: job, in: JobFixture.queue(maxAttempts: 4), refusal, spendsAttempts: false)
        #expect(job.outcomes.map { Outcome(rawValue: $0).kind } == [.retried])
        #expect(job.retries.map(\.attempts) == [0])
        #expect(job.retries.map(\.atLeast) == [.seconds(90)])
    }

    @Test func `what an answer says of a device holds of the moment of sending`() {
        let job = sent(JobFixture.job(recipients: 1))
        let sentAt = ContinuousClock.now - .seconds(20)
        _ = refused(0, of: job, Refusal(status: 400, text: "BadDeviceToken"), sentAt: sentAt)
        #expect(job.reports.map(\.sentAt) == [sentAt])
        #expect(job.reports.map(\.reportedAt) == [nil])
    }

    @Test func `an unknown reason is final and its text kept`() {
        let job = sent(JobFixture.job(recipients: 2))
        _ = refused(1, of: job, Refusal(status: 400, text: "SomethingNew"))
        #expect(job.outcomes.map(Outcome.init)[1] == .rejected(.other))
        #expect(job.notes == [1: "SomethingNew"])
        #expect(job.reports.isEmpty, "the device is as good as before")
    }

    @Test func `an unknown reason is kept, too, where its status says what follows`() {
        let job = sent(JobFixture.job(recipients: 4))
        for (ordinal, (status, text)) in [(410, "LongGone"), (413, "Fat"), (410, "ExpiredToken")].enumerated() {
            _ = refused(ordinal, of: job, Refusal(status: status, text: text))
        }
        _ = refused(3, of: job, Refusal(status: 410, text: nil))
        #expect(
            job.outcomes.map(Outcome.init) == [
                .rejected(.unregistered), .rejected(.payloadTooLarge), .rejected(.named("ExpiredToken")),
                .rejected(.unregistered),
            ])
        #expect(job.notes == [0: "LongGone", 1: "Fat"])
    }

    @Test func `an answer that is no JSON is kept as text when the attempts are used up`() {
        let job = sent(JobFixture.job(recipients: 1, attempt: 4))
        _ = refused(
            0, of: job, in: JobFixture.queue(maxAttempts: 4),
            Refusal(status: 520, text: "<html>Web server is returning"))
        #expect(job.outcomes.map(Outcome.init) == [.failed(.otherTransient)])
        #expect(job.notes == [0: "<html>Web server is returning"])
    }

    @Test func `a channel that APNs does not know is retired, and no device reported`() {
        let job = sent(JobFixture.job(recipients: 1, isBroadcast: true))
        let reason = Reason.named("ChannelNotRegistered")
        #expect(refused(0, of: job, Refusal(status: 400, text: reason.text)) == .none)
        let settled = job.settled { _ in .zero }
        #expect(settled.outcomes.map(Outcome.init) == [.rejected(reason)])
        #expect(settled.channelReport?.channelID == 10)
        #expect(settled.channelReport?.reason == reason)
        #expect(settled.channelReport?.pause == nil)
        #expect(settled.reports.isEmpty)
    }

    @Test func `too many requests to a channel make it wait as long as the broadcast that met them`() {
        let job = sent(JobFixture.job(recipients: 1, isBroadcast: true))
        let refusal = Refusal(status: 429, text: "TooManyRequests", retryAfter: .seconds(7))
        #expect(refused(0, of: job, refusal) == .none)
        let settled = job.settled { $0.atLeast }
        #expect(settled.again.map(\.delay) == [.seconds(7)])
        #expect(settled.again.map(\.attempts) == [1])
        #expect(settled.channelReport?.pause == .seconds(7))
    }

    @Test func `too many requests to a channel fail the broadcast, without a pause, when its attempts are used up`() {
        let job = sent(
            JobFixture.job(recipients: 1, attempt: 4, isBroadcast: true))
        _ = refused(0, of: job, in: JobFixture.queue(maxAttempts: 4), Refusal(status: 429, text: "TooManyRequests"))
        let settled = job.settled { $0.atLeast }
        #expect(settled.outcomes.map(Outcome.init) == [.failed(.named("TooManyRequests"))])
        #expect(settled.channelReport?.pause == nil && settled.channelReport?.reason == nil)
    }

    @Test(arguments: [(400, "BadDeviceToken"), (410, "Unregistered"), (410, nil)])
    func `an answer about a device says nothing about a channel`(status: Int, text: String?) {
        let job = sent(JobFixture.job(recipients: 1, isBroadcast: true))
        _ = refused(0, of: job, Refusal(status: status, text: text))
        #expect(job.outcomes.map { Outcome(rawValue: $0).kind } == [.rejected])
        #expect(job.reports.isEmpty)
    }

    @Test func `a message that is wrong is refused for everybody after three answers`() {
        let job = JobFixture.job(recipients: 100)
        for ordinal in 0..<3 {
            _ = job.takeRecipient()
            job.noteSent()
            _ = refused(ordinal, of: job, Refusal(status: 413, text: "PayloadTooLarge"))
            #expect(job.isClosed == (ordinal == 2))
        }
    }

    @Test func `texts of some recipients that are too long do not cost the others their push`() {
        let message = PersonalMessage(
            versions: [Array("{}".utf8)], attributes: [], hasPlaceholders: true, raisesBadge: false)
        let job = JobFixture.job(
            recipients: 100,
            personal: PersonalPayloads(
                of: message, recipients: (1...100).map { $0 * 10 }, profiles: [], versionOfProfile: [], values: []))
        func refuseNext(_ ordinal: Int, _ refusal: Refusal) {
            _ = job.takeRecipient()
            job.noteSent()
            _ = refused(ordinal, of: job, refusal)
        }
        for ordinal in 0..<5 {
            refuseNext(ordinal, Refusal(status: 413, text: "PayloadTooLarge"))
            #expect(!job.isClosed)
        }
        #expect(job.outcomes.prefix(5).allSatisfy { Outcome(rawValue: $0) == .rejected(.payloadTooLarge) })
        // What all recipients share is wrong for all of them.
        for ordinal in 5..<8 {
            refuseNext(ordinal, Refusal(status: 400, text: "BadCollapseId"))
            #expect(job.isClosed == (ordinal == 7))
        }
    }

    @Test func `a push without an answer is sent again at once, then apart from others, then no more`() {
        let first = sent(JobFixture.job(recipients: 2))
        first.noteEnded()
        AnswerRules.unanswered(0, of: first)
        #expect(first.isSendable)

        let second = sent(JobFixture.job(recipients: 2, losses: 1))
        AnswerRules.unanswered(1, of: second)
        #expect(second.retries.map(\.losses) == [1])
        #expect(second.retries.map(\.attempts) == [0])

        let fifth = sent(JobFixture.job(recipients: 2, losses: 4))
        AnswerRules.unanswered(0, of: fifth)
        #expect(fifth.outcomes.map(Outcome.init)[0] == .unknown)
    }

    @Test func `a push without an answer is unknown where nothing may be sent twice`() {
        let job = sent(JobFixture.job(recipients: 1, isAtMostOnce: true))
        AnswerRules.unanswered(0, of: job)
        #expect(job.outcomes.map(Outcome.init) == [.unknown])
    }

    @Test func `what APNs never looked at is sent again, even where nothing may be sent twice`() {
        let job = sent(JobFixture.job(recipients: 1, isAtMostOnce: true))
        job.noteEnded()
        AnswerRules.untouched(0, of: job)
        #expect(job.retries.isEmpty, "no attempt is spent")
        #expect(job.sendAll() == [0])
    }
}
