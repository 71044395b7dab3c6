package import QueueCore

extension Statement {
    static let registerDevice = Statement("register_device", "select pushq.register_device($queue, $token)")
    static let registerDeviceOfUser = Statement(
        "register_device_of_user",
        #"""
        select pushq.register_device(
          $queue, $token, $user_key, $kind, $locale, $time_zone, $app_version,
          case when $says_tags then $tags::text[] end, $attributes::text::jsonb, $installation, $activity_type,
          $activity, $keep_user)
        """#)
    static let checkTimeZone = Statement("check_time_zone", "select pushq.check_time_zone($queue, $time_zone)")
    static let forgetDevice = Statement("forget_device", "select known, sends from pushq.forget_device($queue, $token)")
    static let forgetUser = Statement("forget_user", "select devices, sends from pushq.forget_user($queue, $user_key)")
}

extension PostgresConnection {
    /// Registers a token as its app would: creates the device or brings it back. The device keeps its user. Returns the
    /// device's id.
    package func registerDevice(_ token: DeviceToken, inQueue queue: QueueName) async throws(PostgresError) -> Int64 {
        try await execute(.registerDevice, ["queue": .queue(queue), "token": .text(token.hex)]).one().int8(
            "register_device")
    }

    /// Registers a token and sets its user; nil: the device belongs to no user.
    /// - Parameters:
    ///   - keepsUser: a known device keeps its user, whatever `userKey` says.
    ///   - kind: what the token is for; nil: the app does not say.
    ///   - profile: what else the app says. A nil part leaves the stored value; an empty part removes it.
    package func registerDevice(
        _ token: DeviceToken, userKey: String?, keepsUser: Bool = false, kind: String? = nil,
        profile: DeviceProfile = DeviceProfile(), inQueue queue: QueueName
    ) async throws(PostgresError) -> Int64 {
        let parameters: Parameters = [
            "queue": .queue(queue), "token": .text(token.hex), "user_key": .text(userKey), "kind": .text(kind),
            "locale": .text(profile.locale), "time_zone": .text(profile.timeZone),
            "app_version": .text(profile.appVersion), "says_tags": .bool(profile.tags != nil),
            "tags": .textArray(profile.tags ?? []), "attributes": .text(profile.attributes),
            "installation": .text(profile.installation), "activity_type": .text(profile.activityType),
            "activity": .text(profile.activity), "keep_user": .bool(keepsUser),
        ]
        return try await execute(.registerDeviceOfUser, parameters).one().int8("register_device")
    }

    /// Refuses a time zone that the server does not know. An empty one is known.
    package func checkTimeZone(_ zone: String, inQueue queue: QueueName) async throws(PostgresError) {
        _ = try await execute(.checkTimeZone, ["queue": .queue(queue), "time_zone": .text(zone)])
    }

    /// Erases a device and what history says about it, which may take minutes. Returns how many sends were erased with
    /// it; nil if there is no such device.
    package func forgetDevice(_ token: DeviceToken, inQueue queue: QueueName) async throws(PostgresError) -> Int? {
        let row = try await execute(
            .forgetDevice, ["queue": .queue(queue), "token": .text(token.hex)], within: .seconds(1800)
        ).one()
        return row.bool("known") ? row.count("sends") : nil
    }

    /// Erases a user's devices, all that is for the user, and what history says about them, which may take minutes.
    /// Returns how many devices and sends were erased: none if nobody knows the user.
    package func forgetUser(
        _ userKey: String, inQueue queue: QueueName
    ) async throws(PostgresError) -> (devices: Int, sends: Int) {
        let row = try await execute(
            .forgetUser, ["queue": .queue(queue), "user_key": .text(userKey)], within: .seconds(1800)
        ).one()
        return (row.count("devices"), row.count("sends"))
    }
}
