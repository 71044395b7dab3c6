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
    /// Whether it goes to a Wallet pass. Such a push needs no contents: the device fetches the pass again.
    package var isForWalletPass: Bool

    package init(
        payload: String, pushType: PushType = .alert, priority: Int? = nil, expiration: Int64? = nil,
        collapseID: String? = nil, isForWalletPass: Bool = false
    ) {
        self.payload = payload
        self.pushType = pushType
        self.priority = priority
        self.expiration = expiration
        self.collapseID = collapseID
        self.isForWalletPass = isForWalletPass
    }
}
