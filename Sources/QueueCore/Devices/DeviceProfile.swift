package import FoundationEssentials

/// What is known about a device besides its token and its user, or what an app reports about it.
package struct DeviceProfile: Sendable, Equatable {
    /// The app's identifier on this device, which stays the same as long as the app is installed.
    package var installation: String?
    /// The type of the Live Activity's attributes, if the token is for Live Activities.
    package var activityType: String?
    /// The Live Activity, if the token is an update token.
    package var activity: String?
    /// A BCP 47 tag, such as `de-AT`.
    package var locale: String?
    /// A name of the IANA database.
    package var timeZone: String?
    /// Numbers and dots.
    package var appVersion: String?
    /// Nil: the app reports nothing about them.
    package var tags: [String]?
    /// A JSON object of texts, numbers and booleans; nil: the app reports nothing about them.
    package var attributes: String?
    /// When the app, or the system from which the device was imported, first saw the device.
    package var firstSeenAt: Date?
    /// When the device was last seen, to within some hours.
    package var seenAt: Date?

    package init() {}
}
