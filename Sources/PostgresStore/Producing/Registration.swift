package import QueueCore

extension Statement {
    static let registerDevice = Statement("register_device", "select pushq.register_device($queue, $token)")
    static let registerDeviceOfUser = Statement(
        "register_device_of_user", "select pushq.register_device($queue, $token, $user_key)")
    static let forgetDevice = Statement("forget_device", "select known, sends from pushq.forget_device($queue, $token)")
}

extension PostgresConnection {
    /// Registers a token as its app would report it: makes the device or brings it back. Whose it is stays as it was.
    /// Returns its id.
    package func registerDevice(_ token: DeviceToken, inQueue queue: QueueName) async throws(PostgresError) -> Int64 {
        try await execute(.registerDevice, ["queue": .queue(queue), "token": .text(token.hex)]).one().int8(
            "register_device")
    }

    /// The same, and says whose it is: nil for nobody's.
    package func registerDevice(
        _ token: DeviceToken, userKey: String?, inQueue queue: QueueName
    ) async throws(PostgresError) -> Int64 {
        let rows = try await execute(
            .registerDeviceOfUser, ["queue": .queue(queue), "token": .text(token.hex), "user_key": .text(userKey)])
        return try rows.one().int8("register_device")
    }

    /// Erases a device with what history says of it, which may take minutes. Returns how many sends went with it; nil
    /// without such a device.
    package func forgetDevice(_ token: DeviceToken, inQueue queue: QueueName) async throws(PostgresError) -> Int? {
        let row = try await execute(
            .forgetDevice, ["queue": .queue(queue), "token": .text(token.hex)], within: .seconds(1800)
        ).one()
        return row.bool("known") ? row.count("sends") : nil
    }
}
