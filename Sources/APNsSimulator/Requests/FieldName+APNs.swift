import HTTP2

/// The names that the simulator reads in requests and writes in answers.
extension FieldNames {
    static let ofPushes = FieldNames(application: [
        "apns-id", "apns-topic", "apns-push-type", "apns-priority", "apns-expiration", "apns-collapse-id",
        "authorization", "apns-unique-id", "apns-channel-id", "apns-request-id",
    ])
}

extension FieldName {
    static let apnsID = FieldName(application: 0)
    static let apnsTopic = FieldName(application: 1)
    static let apnsPushType = FieldName(application: 2)
    static let apnsPriority = FieldName(application: 3)
    static let apnsExpiration = FieldName(application: 4)
    static let apnsCollapseID = FieldName(application: 5)
    static let authorization = FieldName(application: 6)
    static let apnsUniqueID = FieldName(application: 7)
    static let apnsChannelID = FieldName(application: 8)
    static let apnsRequestID = FieldName(application: 9)
}
