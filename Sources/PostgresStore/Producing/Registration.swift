package import QueueCore

extension Statement {
    static let registerDevice = Statement("register_device", "select pushq.register_device($1, $2)")
    static let registerDeviceOfUser = Statement(
        "register_device_of_user", "select pushq.register_device($1, $2, $3)")
    static let forgetDevice = Statement("forget_device", "select known, sends from pushq.forget_device($1, $2)")
}

extension PostgresConnection {
    /// Registers a token as its app would report it: makes the device or brings it back. Whose it is stays as it was. Returns its id.
    package func registerDevice(_ token: DeviceToken, inQueue queue: String) async throws(PostgresError) -> Int64 {
        try await execute(.registerDevice, [.text(queue), .text(token.hex)]).first?.int8(0) ?? 0
    }

    /// The same, and says whose it is: nil for nobody's.
    package func registerDevice(
        _ token: DeviceToken, userKey: String?, inQueue queue: String
    ) async throws(PostgresError) -> Int64 {
        let rows = try await execute(.registerDeviceOfUser, [.text(queue), .text(token.hex), .text(userKey)])
        return rows.first?.int8(0) ?? 0
    }

    /// Erases a device with what history says of it, which may take minutes. Returns how many sends went with it; nil without such a
    /// device.
    package func forgetDevice(_ token: DeviceToken, inQueue queue: String) async throws(PostgresError) -> Int? {
        let row = try await execute(
            .forgetDevice, [.text(queue), .text(token.hex)], within: .seconds(1800)
        ).first
        return row?.bool(0) == true ? row.map { Int($0.int8(1)) } : nil
    }
}
