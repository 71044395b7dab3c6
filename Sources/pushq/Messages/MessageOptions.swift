import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal

/// The options of a message, for a send and a campaign alike.
struct MessageOptions: ParameterGroup {
    @Option("The type of push.", "TYPE") var pushType: PushType = .alert
    @Option(
        "10: deliver at once; 5: when the device's power allows it; 1: without waking the device. By default APNs decides.",
        "10|5|1")
    var priority: Int?
    @Option(
        "How long APNs stores the push for a device that it cannot reach, counted from the start; 0: one attempt only. By default APNs decides."
    )
    var expiration: Duration?
    @Option("Pushes with the same collapse ID replace each other on the device.", "ID") var collapseId: String?
    @Flag("Never send twice, even if a push may then be lost: for one-time codes and calls.") var atMostOnce
    @Flag("Send before everything else that waits in the queue: for one-time codes and calls.") var urgent

    /// Returns the message with this payload, for this queue.
    ///
    /// - Throws: ``UsageError`` for an option that is wrong with any message; ``Failure`` if APNs would refuse this
    ///   message, before the database is asked.
    /// - Parameters:
    ///   - dayStart: when a campaign on a given day starts.
    ///   - isOfCampaign: whether the payload may have placeholders and several languages.
    func message(
        of payload: Payload, for queue: QueueName, at times: SendingTimes = SendingTimes(), dayStart: Date? = nil,
        isOfCampaign: Bool = false
    ) throws -> MessageDraft {
        if let priority { try Priority.check(option: priority) }
        var message = MessageDraft(payload: payload.text)
        message.pushType = pushType
        message.priority = priority
        message.collapseID = collapseId
        message.isSentAtMostOnce = atMostOnce
        message.isUrgent = urgent
        message.startAt = times.at?.date
        message.sendBy = times.sendBy?.date
        message.expiration = expiration(of: message, dayStart, now: .now)
        var checked = message.message
        checked.app = queue.app
        let now = Int64(Date.now.timeIntervalSince1970)
        try payload.refuseErrors(
            among: isOfCampaign ? CampaignMessage.check(checked, now: now) : MessageRules.check(checked, now: now))
        return message
    }

    /// Counts the expiration of a message from the database's time, which counts for everything else, too: the clock of
    /// this machine may differ.
    func timed(
        _ message: MessageDraft, dayStart: Date? = nil, in store: PostgresConnection
    ) async throws(PostgresError) -> MessageDraft {
        guard let expiration, expiration != .zero else { return message }
        var message = message
        message.expiration = self.expiration(of: message, dayStart, now: try await store.time())
        return message
    }

    private func expiration(of message: MessageDraft, _ dayStart: Date?, now: Date) -> Int64? {
        let start = max(now, message.startAt ?? now, dayStart ?? now)
        return expiration.map { $0 == .zero ? 0 : Int64(start.timeIntervalSince1970 + $0.seconds) }
    }
}

/// The earliest and the latest time at which a message is sent.
struct SendingTimes: ParameterGroup {
    @Option("Do not send before this time.") var at: Moment?
    @Option("Do not send after this time; by default 24 hours after the start.") var sendBy: Moment?
}
