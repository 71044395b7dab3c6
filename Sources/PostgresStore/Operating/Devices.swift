package import FoundationEssentials
package import QueueCore

extension Statement {
    /// A page of devices in the order of their ids: the devices after `$last`, the last id of the previous page.
    static let devices = Statement(
        "devices",
        #"""
        select id, token, device_user as user_key, kind, active, registered_at, inactive_since,
               inactive_reason, reactivated_at, installation, activity_type, activity, locale, time_zone, app_version,
               tags, attributes::text, first_seen_at, seen_at
        from pushq.show_devices($queue, $last, $user_key, $inactive, $limit, $kind, $filter)
        """#)

    static let device = Statement(
        "device",
        #"""
        select id, token_bytes as token, device_user as user_key, kind, active, registered_at, inactive_since,
               inactive_reason, reactivated_at, installation, activity_type, activity, locale, time_zone, app_version,
               tags, attributes::text, first_seen_at, seen_at
        from pushq.show_device($queue, $token)
        """#)

    static let setDevice = Statement(
        "set_device", "select is_known, has_changed from pushq.set_device($queue, $token, $active)")
}

/// A device as it is stored.
package struct Device: Sendable {
    package let id: Int64
    package let token: DeviceToken
    package let userKey: String?
    /// What the token is for; nil if unknown, which counts as alerts.
    package let kind: String?
    package let isActive: Bool
    /// When its app last registered the token; nil if it never has: the token was imported, or a send named it first.
    package let registeredAt: Date?
    /// When it was last brought back, or kept active, by hand or by an import.
    package let reactivatedAt: Date?
    /// Nil while it is active.
    package let inactiveSince: Date?
    /// The reason in APNs' answer that made it inactive; nil if it is active or has another cause.
    package let inactiveReason: Reason?
    package let profile: DeviceProfile
}

/// The result of an order about one device.
package enum DeviceChange: Sendable {
    case changed
    /// The device was in that state already.
    case unchanged
    /// There is no such device in the queue.
    case unknown
}

extension PostgresConnection {
    /// Returns a page of a queue's devices: the devices with ids above `last`.
    /// - Parameters:
    ///   - kind: only devices with tokens of this kind.
    ///   - filter: only active devices that match it. Both search the first million devices after `last`.
    package func devices(
        inQueue queue: QueueName, after last: Int64, userKey: String?, kind: String? = nil, filter: String? = nil,
        includesInactive: Bool, limit: Int
    ) async throws(PostgresError) -> [Device] {
        let parameters: Parameters = [
            "queue": .queue(queue), "last": .int8(last), "user_key": .text(userKey),
            "inactive": .bool(includesInactive), "limit": .int8(Int64(limit)), "kind": .text(kind),
            "filter": .text(filter),
        ]
        return try await execute(.devices, parameters, within: Self.fileLimit).compactMap(Device.init)
    }

    /// Returns the device of a token; nil if there is none.
    package func device(_ token: DeviceToken, inQueue queue: QueueName) async throws(PostgresError) -> Device? {
        try await execute(.device, ["queue": .queue(queue), "token": .bytea(token.bytes)]).first.flatMap(Device.init)
    }

    /// Excludes a device from all future sends, or brings it back.
    package func setDevice(
        _ token: DeviceToken, inQueue queue: QueueName, isActive: Bool
    ) async throws(PostgresError) -> DeviceChange {
        let parameters: Parameters = [
            "queue": .queue(queue), "token": .text(token.hex), "active": .bool(isActive),
        ]
        let row = try await execute(.setDevice, parameters).one()
        guard row.bool("is_known") else { return .unknown }
        return row.bool("has_changed") ? .changed : .unchanged
    }
}

extension Device {
    fileprivate init?(_ row: Row) {
        guard let token = try? DeviceToken(bytes: row.bytes("token")) else { return nil }
        self.init(
            id: row.int8("id"), token: token, userKey: row.optionalText("user_key"),
            kind: row.optionalText("kind"), isActive: row.bool("active"),
            registeredAt: row.optionalTime("registered_at"), reactivatedAt: row.optionalTime("reactivated_at"),
            inactiveSince: row.optionalTime("inactive_since"),
            inactiveReason: row.optionalInt2("inactive_reason").map { Reason(code: UInt8(truncatingIfNeeded: $0)) },
            profile: DeviceProfile(row))
    }
}

extension DeviceProfile {
    fileprivate init(_ row: Row) {
        self.init()
        installation = row.optionalText("installation")
        activityType = row.optionalText("activity_type")
        activity = row.optionalText("activity")
        locale = row.optionalText("locale")
        timeZone = row.optionalText("time_zone")
        appVersion = row.optionalText("app_version")
        tags = row.textArray("tags")
        attributes = row.optionalText("attributes")
        firstSeenAt = row.optionalTime("first_seen_at")
        seenAt = row.optionalTime("seen_at")
    }
}
