import HTTP2

/// The names of the fields of Apple's API, as numbers of the HTTP/2 layer.
enum APNsFields {
    static let names = FieldNames(application: [
        "apns-id", "apns-expiration", "apns-collapse-id", "retry-after", "apns-channel-id", "apns-request-id",
        "date",
    ])
    static let apnsID = FieldName(application: 0)
    static let expiration = FieldName(application: 1)
    static let collapseID = FieldName(application: 2)
    static let retryAfter = FieldName(application: 3)
    static let channelID = FieldName(application: 4)
    static let requestID = FieldName(application: 5)
    static let date = FieldName(application: 6)
}
