package import FoundationEssentials

/// What is known of a device beside its token and its user, or what an app says of it.
package struct DeviceProfile: Sendable, Equatable {
    /// What the app calls itself on that device, as long as it is installed.
    package var installation: String?
    /// Of a token for Live Activities: the name of its attributes.
    package var activityType: String?
    /// Of an update token: the Live Activity.
    package var activity: String?
    /// BCP 47, such as `de-AT`.
    package var locale: String?
    /// A name of the IANA database.
    package var timeZone: String?
    /// Numbers and dots.
    package var appVersion: String?
    /// Nil: nothing is said about them.
    package var tags: [String]?
    /// A JSON object of texts, numbers and booleans; nil: nothing is said about them.
    package var attributes: String?
    /// When its app, or the one that an import came from, saw it first.
    package var firstSeenAt: Date?
    /// When it was seen last, within some hours.
    package var seenAt: Date?

    package init() {}
}
