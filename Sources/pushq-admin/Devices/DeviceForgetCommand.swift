import PostgresStore
import QueueCore
import Terminal

struct DeviceForgetCommand: Command {
    static let name = "forget"
    static let users = CommandUsers.tenants
    static let summary = "Deletes a device or all of a user, with the history."
    static let discussion = """
        With TOKEN, this deletes the device with its token, its user and what APNs reported about it, and the sends \
        that were for it alone. The older tokens of its installation go with it, if they were the same user's. If the \
        user has no other device in the queue, so does what is for the user, such as scheduled sends. Campaigns keep \
        their counts. A send that a worker holds at this moment is cancelled, and kept for as long as other history. \
        The keys of sends are kept, so that a repeated call does not send to the person again.

        With --user, it deletes all devices of the user in this way, and what is for the user, also if the user has \
        no device. A device from which the user has logged out is found only by its token. docs/sql-api.md says how \
        to erase a person in all queues, and what stays.

        The command reads the history of the queue, which may take minutes.
        """
    static let examples = [
        "device forget acme/com.acme.shop/production \(DeviceChanges.exampleToken)",
        "device forget acme/com.acme.shop/production --user 4711",
    ]

    /// The question counts a user's devices up to this number.
    private static let most = 1000

    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The device token, in hexadecimal.") var token: DeviceToken?
    @Option("The user, all of whose devices are deleted.", "KEY") var user: String?
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    func run(_ console: Console) async throws {
        switch (token, user) {
        case (let token?, nil): try await forget(token, console)
        case (nil, let user?): try await forget(user: user, console)
        case (nil, nil): throw UsageError("give TOKEN, or a user with --user")
        default: throw UsageError("TOKEN cannot be used together with --user")
        }
    }

    private func forget(_ token: DeviceToken, _ console: Console) async throws {
        let queue = queue
        if !confirmation.isGiven {
            let known = try await database.session { store in try await store.device(token, inQueue: queue) }
            guard let device = known else { throw Failure.noDevice(token, inQueue: queue) }
            let owner = device.userKey.map { " of user \($0)" } ?? ""
            let others = device.userKey.map { _ in ", and all that is for the user if it is the last device" } ?? ""
            // The question cannot name the number of sends, because that takes reading the whole history.
            try confirmation.ask(
                console,
                "deletes device \(token.redacted)\(owner), its history and the sends that were for it alone\(others)"
            )
        }
        let sends = try await database.session { store in try await store.forgetDevice(token, inQueue: queue) }
        guard let sends else { throw Failure.noDevice(token, inQueue: queue) }
        console.show(
            "forgot \(token.redacted), and \(NumberText.counted(sends, "send"))",
            json: ["queue": .string("\(queue)"), "sends": .integer(sends)])
    }

    /// A user without devices is no failure: sends may wait for the user, or a script goes through all queues.
    private func forget(user: String, _ console: Console) async throws {
        let queue = queue
        if !confirmation.isGiven {
            let devices = try await database.session { store in
                try await store.devices(
                    inQueue: queue, after: 0, userKey: user, includesInactive: true, limit: Self.most)
            }
            let count = NumberText.counted(devices.count, "device") + (devices.count < Self.most ? "" : " or more")
            try confirmation.ask(
                console,
                "deletes all of user \(user): \(count), the history, and the sends that were for the user alone")
        }
        let forgotten = try await database.session { store in try await store.forgetUser(user, inQueue: queue) }
        let devices = NumberText.counted(forgotten.devices, "device")
        console.show(
            "forgot user \(user): \(devices) and \(NumberText.counted(forgotten.sends, "send"))",
            json: [
                "queue": .string("\(queue)"), "devices": .integer(forgotten.devices),
                "sends": .integer(forgotten.sends),
            ])
    }
}
