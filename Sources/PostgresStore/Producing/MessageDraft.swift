package import FoundationEssentials
package import QueueCore

/// What to send, for a send or a campaign. PostgreSQL checks it again by the rules of QueueCore's `MessageRules`.
package struct MessageDraft: Sendable {
    /// JSON, sent byte for byte.
    package var payload: String
    package var pushType = PushType.alert
    /// Nil: no header.
    package var priority: Int?
    /// Nil: no header; 0: one attempt; else seconds since 1970.
    package var expiration: Int64?
    package var collapseID: String?
    /// Whether a push is lost rather than sent twice.
    package var isSentAtMostOnce = false
    /// Whether it is sent before other waiting pushes: those of its queue, and within bounds those of other queues.
    package var isUrgent = false
    /// The earliest time to send it; nil: now.
    package var startAt: Date?
    /// The latest time to send it; nil: 24 hours after the start.
    package var sendBy: Date?

    /// A message with only a payload.
    package init(payload: String) {
        self.payload = payload
    }

    /// The part of the draft that the rules for messages check.
    package var message: Message {
        Message(
            payload: payload, pushType: pushType, priority: priority, expiration: expiration, collapseID: collapseID)
    }

    /// The parameters that can be invalid.
    var checkedParameters: Parameters {
        [
            "payload": .text(payload), "push_type": .text(pushType.rawValue),
            "priority": .int4(priority.map(Int32.init)), "expiration": .int8(expiration),
            "collapse_id": .text(collapseID), "start_at": .time(startAt), "send_by": .time(sendBy),
        ]
    }

    /// The parameters that identify a campaign to a list under its key.
    var identity: Parameters {
        [
            "payload": .text(payload), "push_type": .text(pushType.rawValue),
            "priority": .int4(priority.map(Int32.init)), "collapse_id": .text(collapseID),
            "at_most_once": .bool(isSentAtMostOnce), "urgent": .bool(isUrgent),
        ]
    }

    var parameters: Parameters {
        checkedParameters + ["at_most_once": .bool(isSentAtMostOnce), "urgent": .bool(isUrgent)]
    }
}
