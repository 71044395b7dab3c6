import HTTP2
package import QueueCore

/// What all recipients of a message have in common, prepared once. A request adds its path and its identifier. For a
/// personal message, the sender sets the payload of each recipient before it sends.
///
/// Belongs to one loop. It is not tied to a gateway: when a credential is replaced, another gateway sends the same
/// push.
package final class PreparedPush {
    /// `apns-collapse-id`: what a later push replaces on the device.
    package enum CollapseID: Hashable, Sendable {
        case none
        /// One for all recipients, at most 64 bytes.
        case constant(String)
        /// The recipient's `apns-id`, so that a push that is sent twice replaces the first one.
        case apnsID
    }

    /// The maximum length of a collapse identifier, in bytes.
    package static let maximumCollapseIDBytes = 64

    let kind: PushKind
    /// The payload of the next request: JSON in UTF-8.
    package var payload: [UInt8]
    let expiration: Expiration
    /// The value of `apns-expiration`, empty for none.
    let expirationField: [UInt8]
    let isCollapsedByAPNsID: Bool
    let collapseID: [UInt8]
    /// The `:path` of a broadcast, the same for every channel; empty for pushes to devices, since each has its own
    /// path.
    let broadcastPath: [UInt8]

    /// The priority for an interface that requires one.
    var effectivePriority: Priority { kind.priority ?? kind.pushType.defaultPriority ?? .immediate }

    /// The fields prepared for the authorization with this number.
    private var prepared: (number: UInt64, headers: PreparedHeaders)?

    /// - Parameters:
    ///   - topic: the bundle ID with the suffix of the push type.
    ///   - payload: JSON in UTF-8.
    package init(
        topic: String, pushType: PushType, priority: Priority?, expiration: Expiration, collapseID: CollapseID,
        payload: [UInt8]
    ) {
        kind = PushKind(topic: topic, pushType: pushType, priority: priority)
        broadcastPath = []
        self.payload = payload
        self.expiration = expiration
        expirationField = Array((expiration.headerValue ?? "").utf8)
        switch collapseID {
        case .none: (isCollapsedByAPNsID, self.collapseID) = (false, [])
        case .apnsID: (isCollapsedByAPNsID, self.collapseID) = (true, [])
        case .constant(let text): (isCollapsedByAPNsID, self.collapseID) = (false, Array(text.utf8))
        }
        precondition(
            self.collapseID.count <= Self.maximumCollapseIDBytes, "a collapse identifier is checked when it is accepted"
        )
    }

    /// Prepares a broadcast (Apple: "Sending broadcast push notification requests to APNs").
    /// - Parameter app: the bundle ID, without a suffix.
    package init(broadcastOf app: String, priority: Priority?, expiration: Expiration, payload: [UInt8]) {
        kind = PushKind(topic: nil, pushType: .liveactivity, priority: priority)
        broadcastPath = Array("/4/broadcasts/apps/\(app)".utf8)
        self.payload = payload
        self.expiration = expiration
        expirationField = Array((expiration.headerValue ?? "").utf8)
        (isCollapsedByAPNsID, collapseID) = (false, [])
    }

    /// Whether its recipient is a channel.
    var isBroadcast: Bool { !broadcastPath.isEmpty }

    /// Returns the prepared fields for a gateway. It prepares them again only if the authorization has changed.
    func headers(for authorization: Authorization) -> PreparedHeaders {
        if let prepared, prepared.number == authorization.number { return prepared.headers }
        let headers = authorization.headers(for: kind)
        prepared = (authorization.number, headers)
        return headers
    }
}
