import OperatorViews
import PostgresStore
import QueueCore
import Terminal

enum DeviceCommands {
    static let all: [CommandTree] = [
        .command(Register.self), .command(DeviceImportCommand.self), .command(DeviceExportCommand.self),
        .command(List.self),
        .command(Show.self), .command(Deactivate.self), .command(DeviceReactivateCommand.self),
        .command(DeviceForgetCommand.self),
    ]

    struct Register: Command {
        static let name = "register"
        static let users = CommandUsers.tenants
        static let summary = "Registers a device token, as if its app had reported it."
        static let discussion = """
            Options that you leave out change nothing; an empty text, such as --locale "", removes a value. A time zone \
            that the server does not know is refused, while an app that reports one is registered without it. With \
            --installation, the token replaces the installation's older token of the same kind, which is deactivated.
            """
        static let examples = [
            "device register acme/com.acme.shop/production \(DeviceChanges.exampleToken) --user-key 4711",
            "device register acme/com.acme.shop/production \(DeviceChanges.exampleToken) --no-user",
            "device register acme/com.acme.shop/production \(DeviceChanges.exampleToken) --kind voip --locale de-AT",
        ]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The device token, in hexadecimal.") var token: DeviceToken
        @Option("Your key for the user of the device. Without it, a known device keeps its user.", "KEY")
        var userKey: String?
        @Flag("The device belongs to no user.") var noUser
        @Option("What the token is for: alert, voip, liveactivity, liveactivity-start, location, …", "KIND")
        var kind: String?
        @Option("The language of the app, such as de or de-AT.", "LOCALE") var locale: RemovableText?
        @Option("The time zone, such as Europe/Vienna.", "ZONE") var timeZone: RemovableText?
        @Option("The version of the app, such as 4.12.1.", "VERSION") var appVersion: RemovableText?
        @Option("A tag. The given tags replace the device's tags.", "TAG") var tag: [RemovableText]
        @Option("A JSON object of texts, numbers and booleans, which replaces the device's attributes.")
        var attributes: AttributesText?
        @Option("The identifier that the app has made for its installation.", "ID") var installation: RemovableText?
        @Option("For a token for Live Activities: its attributes-type.", "NAME") var activityType: RemovableText?
        @Option("For an update token: the ID of the Live Activity.", "ID") var activity: RemovableText?
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            guard userKey == nil || !noUser else {
                throw UsageError("--user-key and --no-user cannot be used together")
            }
            let (queue, keepsUser) = (queue, userKey == nil && !noUser)
            let id = try await database.session { store in
                // A phone that says an unknown zone is registered without one. A person has misspelt it.
                if let zone = profile.timeZone { try await store.checkTimeZone(zone, inQueue: queue) }
                return try await store.registerDevice(
                    token, userKey: userKey, keepsUser: keepsUser, kind: kind, profile: profile, inQueue: queue)
            }
            console.show(
                "registered as device \(id)", json: ["queue": .string("\(queue)"), "device": .string("\(id)")])
        }

        private var profile: DeviceProfile {
            var profile = DeviceProfile()
            profile.installation = installation?.text
            profile.activityType = activityType?.text
            profile.activity = activity?.text
            profile.locale = locale?.text
            profile.timeZone = timeZone?.text
            profile.appVersion = appVersion?.text
            profile.tags = tag.isEmpty ? nil : tag.map(\.text).filter { !$0.isEmpty }
            profile.attributes = attributes?.json
            return profile
        }
    }

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.tenants
        static let summary = "Lists devices of a queue; 'export' writes all of them with their complete tokens."
        static let discussion = """
            docs/audiences.md describes filters, as of campaigns. They hold for active devices with tokens of one kind: \
            for alerts, if --kind names no other. --filter and --kind look at the first million devices of the queue.
            """
        static let examples = [
            "device list acme/com.acme.shop/production", "device list acme/com.acme.shop/production --user-key 4711",
            "device list acme/com.acme.shop/production --filter \"locale = 'de' and tag 'vip'\"",
            "device list acme/com.acme.shop/production --kind voip --all",
        ]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Option("List only those of this user.", "KEY") var userKey: String?
        @Option("List only those with a token for this, such as alert, voip or liveactivity-start.", "KIND") var kind:
            String?
        @Option("List only those for which this filter holds, such as \"tag 'vip'\".") var filter: String?
        @Flag("List inactive devices, too.") var all
        @Option("Maximum number of rows.") var limit: Count = 50
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            guard filter == nil || userKey == nil && !all else {
                throw UsageError("--filter cannot be used with --user-key or --all")
            }
            let (queue, limit) = (queue, limit.number)
            let devices = try await database.session { store in
                try await store.devices(
                    inQueue: queue, after: 0, userKey: userKey, kind: kind, filter: filter, includesInactive: all,
                    limit: limit)
            }
            console.show(devices, columns: DeviceColumns.all)
        }
    }

    struct Show: Command {
        static let name = "show"
        static let users = CommandUsers.tenants
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
                ("user_key", .text(device.userKey)), ("kind", .text(device.kind ?? "alert")),
                ("active", .yes(device.isActive)), ("registered_at", .time(device.registeredAt)),
                ("reactivated_at", .time(device.reactivatedAt)),
                ("inactive_since", .time(device.inactiveSince)), ("reason", .text(device.inactiveReason?.text)),
                ("locale", .text(device.profile.locale)), ("time_zone", .text(device.profile.timeZone)),
                ("app_version", .text(device.profile.appVersion)),
                ("tags", Self.cell(tags: device.profile.tags ?? [])),
                ("attributes", Self.cell(attributes: device.profile.attributes)),
                ("installation", .text(device.profile.installation)),
                ("activity_type", .text(device.profile.activityType)), ("activity", .text(device.profile.activity)),
                ("first_seen_at", .time(device.profile.firstSeenAt)), ("seen_at", .time(device.profile.seenAt)),
            ])
        }

        private static func cell(attributes: String?) -> Cell {
            attributes.map { .told($0, json: .written($0)) } ?? .text(nil)
        }

        private static func cell(tags: [String]) -> Cell {
            tags.isEmpty ? .text(nil) : .told(tags.joined(separator: " "), json: .array(tags.map(JSON.string)))
        }
    }

    struct Deactivate: Command {
        static let name = "deactivate"
        static let users = CommandUsers.tenants
        static let summary = "Deactivates devices: nothing more is sent to them."
        static let examples = ["device deactivate acme/com.acme.shop/production \(DeviceChanges.exampleToken)"]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("Device tokens, in hexadecimal.") var tokens: [DeviceToken]
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            try await DeviceChanges.set(tokens, isActive: false, queue: queue, database: database, console: console)
        }
    }
}
