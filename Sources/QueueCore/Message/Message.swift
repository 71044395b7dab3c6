/// What is sent to each recipient, as a producer passes it; nothing in it has been checked yet.
package struct Message: Sendable {
    /// JSON, sent byte for byte.
    package var payload: String
    package var pushType: PushType
    /// The value of the header; nil: no header.
    package var priority: Int?
    /// Nil: no header, and APNs decides; 0: one attempt; else seconds since 1970.
    package var expiration: Int64?
    package var collapseID: String?
    /// The bundle ID of the app whose recipients get it; nil: an app like most, not for Wallet passes or a website.
    package var app: String?

    package init(
        payload: String, pushType: PushType = .alert, priority: Int? = nil, expiration: Int64? = nil,
        collapseID: String? = nil, app: String? = nil
    ) {
        self.payload = payload
        self.pushType = pushType
        self.priority = priority
        self.expiration = expiration
        self.collapseID = collapseID
        self.app = app
    }

    /// Whether the app is a pass type ID, so that the push updates a Wallet pass (Apple: "Adding a Web Service to
    /// Update Passes"). Such a push needs no contents: the device fetches the pass again.
    package var isForWalletPass: Bool { app?.hasPrefix("pass.") == true }

    /// Whether the app is a website push ID, so that the push goes to Safari (Apple: "Notification Programming Guide
    /// for Websites").
    package var isForWebsite: Bool { app?.hasPrefix("web.") == true }
}
