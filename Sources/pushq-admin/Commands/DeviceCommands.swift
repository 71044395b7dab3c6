import PostgresStore
import QueueCore
import Terminal

enum DeviceCommands {
    static let all: [CommandTree] = [
        .command(Register.self), .command(DeviceImportCommand.self), .command(DeviceExportCommand.self),
        .command(List.self),
        .command(Show.self), .command(Deactivate.self), .command(DeviceReactivateCommand.self), .command(Forget.self),
    ]

    struct Register: Command {
        static let name = "register"
        static let summary = "Registers a device token, as if its app reported it."
        static let examples = [
            "device register acme/com.acme.shop/production \(DeviceChanges.exampleToken) --user-key 4711",
            "device register acme/com.acme.shop/production \(DeviceChanges.exampleToken) --no-user",
        ]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The device token, in hexadecimal.") var token: DeviceToken
        @Option("Your key for the user of the device. Without it, a known device keeps its user.", "KEY")
        var userKey: String?
        @Flag("The device belongs to no user.") var noUser
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            guard userKey == nil || !noUser else {
                throw UsageError("--user-key and --no-user cannot be used together")
            }
            let (queue, saysWhose) = (queue, userKey != nil || noUser)
            let id = try await database.session { store in
                if saysWhose { return try await store.registerDevice(token, userKey: userKey, inQueue: queue) }
                return try await store.registerDevice(token, inQueue: queue)
            }
            console.show(
                "registered as device \(id)", json: ["queue": .string("\(queue)"), "device": .integer(Int(id))])
        }
    }

    struct List: Command {
        static let name = "list"
        static let summary = "Lists devices of a queue; 'export' writes all of them with their complete tokens."
        static let examples = [
            "device list acme/com.acme.shop/production", "device list acme/com.acme.shop/production --user-key 4711",
        ]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Option("List only those of this user.", "KEY") var userKey: String?
        @Flag("List inactive devices, too.") var all
        @Option("Maximum number of rows.") var limit: Count = 50
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, limit) = (queue, limit.number)
            let devices = try await database.session { store in
                try await store.devices(inQueue: queue, after: 0, userKey: userKey, includesInactive: all, limit: limit)
            }
            console.show(
                devices,
                columns: [
                    Column("device") { .text("\($0.id)") },
                    Column("token") { .text($0.token.redacted) },
                    Column("user_key") { .text($0.userKey) },
                    Column("active") { .yes($0.isActive) },
                    Column("registered_at") { .time($0.registeredAt) },
                    Column("inactive_since") { .time($0.inactiveSince) },
                    Column("reason") { .text($0.inactiveReason?.text) },
                ])
        }
    }

    struct Show: Command {
        static let name = "show"
        static let summary = "Shows the device of a token."
        static let examples = ["device show acme/com.acme.shop/production \(DeviceChanges.exampleToken)"]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The device token, in hexadecimal.") var token: DeviceToken
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let queue = queue
            let found = try await database.session { store in try await store.device(token, inQueue: queue) }
            guard let device = found else { throw Failure.noDevice(token, inQueue: queue) }
            console.show([
                ("device", .text("\(device.id)")), ("token", .text(device.token.hex)),
                ("user_key", .text(device.userKey)),
                ("active", .yes(device.isActive)), ("registered_at", .time(device.registeredAt)),
                ("reactivated_at", .time(device.reactivatedAt)),
                ("inactive_since", .time(device.inactiveSince)), ("reason", .text(device.inactiveReason?.text)),
            ])
        }
    }

    struct Deactivate: Command {
        static let name = "deactivate"
        static let summary = "Deactivates devices: nothing more is sent to them."
        static let examples = ["device deactivate acme/com.acme.shop/production \(DeviceChanges.exampleToken)"]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("Device tokens, in hexadecimal.") var tokens: [DeviceToken]
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            try await DeviceChanges.set(tokens, isActive: false, queue: queue, database: database, console: console)
        }
    }

    struct Forget: Command {
        static let name = "forget"
        static let summary = "Deletes a device and its history."
        static let discussion = """
            This deletes the device with its token, its user and what APNs reported about it, and the sends that were \
            for it alone. Campaigns keep their counts. A send that a worker holds at this moment is cancelled, and \
            kept for as long as other history.

            The command reads the history of the queue, which may take minutes.
            """
        static let examples = ["device forget acme/com.acme.shop/production \(DeviceChanges.exampleToken)"]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The device token, in hexadecimal.") var token: DeviceToken
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let queue = queue
            let sends = try await database.session { store in try await store.forgetDevice(token, inQueue: queue) }
            guard let sends else { throw Failure.noDevice(token, inQueue: queue) }
            console.show(
                "forgot \(token.redacted), and \(NumberText.counted(sends, "send"))",
                json: ["queue": .string("\(queue)"), "sends": .integer(sends)])
        }
    }
}
