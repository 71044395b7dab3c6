/// What is wrong with a notification of the binary interface, as the status of an error packet. It does not use the
/// client's own table, so that a mistake there shows.
///
/// Source: Apple archive, "Binary Provider API", table A-1.
struct NotificationFault {
    let code: UInt8
    /// The reason in counts and record.
    let refusal: DocumentedReason

    /// Checks a notification; nil if nothing is wrong.
    init?(refusing notification: BinaryNotification, _ token: TokenPath) {
        guard let bytes = notification.token, !bytes.isEmpty else {
            (code, refusal) = (2, .missingDeviceToken)
            return
        }
        guard let payload = notification.payload, !payload.isEmpty else {
            (code, refusal) = (4, .payloadEmpty)
            return
        }
        if token.refusal != nil {
            (code, refusal) = (5, .badDeviceToken)
        } else if payload.count > (notification.command == 2 ? 2048 : 256) {
            (code, refusal) = (7, .payloadTooLarge)
        } else if let priority = notification.priority, priority != 10, priority != 5 {
            (code, refusal) = (1, .badPriority)
        } else {
            return nil
        }
    }
}

extension DocumentedReason {
    /// The status with the same meaning; 1, a processing error, if there is none.
    var binaryStatus: UInt8 {
        switch self {
        case .missingDeviceToken: 2
        case .missingTopic: 3
        case .payloadEmpty: 4
        case .badTopic, .topicDisallowed: 6
        case .payloadTooLarge: 7
        case .badDeviceToken, .deviceTokenNotForTopic: 8
        case .shutdown: 10
        default: 1
        }
    }
}
