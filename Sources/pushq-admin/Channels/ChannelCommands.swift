import APNs
import PostgresStore
import QueueCore
import Terminal

enum ChannelCommands {
    static let all: [CommandTree] = [
        .command(Create.self), .command(ChannelListCommand.self), .command(Show.self), .command(Delete.self),
    ]

    struct Create: Command {
        static let name = "create"
        static let users = CommandUsers.operatorsOfChannels
        static let summary = "Creates a channel at Apple and adds it to the queue."
        static let discussion = """
            The app's devices subscribe to it with the printed ID. Apple allows 10,000 channels for an app in an \
            environment, so delete those that are not in use.
            """
        static let examples = [
            "channel create acme/com.acme.shop/production",
            "channel create acme/com.acme.shop/production --policy latest",
        ]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Option("What APNs stores for devices that it cannot reach: nothing, or the latest message for 8 hours.")
        var policy: ChannelPolicy = .none
        var management = ChannelManagement()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let channel = try await management.withClient(of: queue, database, console) { try await $0.create(policy) }
            do {
                try await database.session { store in
                    try await store.registerChannel(channel, policy: policy, inQueue: queue)
                }
            } catch {
                throw Failure(
                    "Apple has created channel \(channel), but it could not be registered here (\(error)); register it with: "
                        + "pushq-admin channel list \(queue) --reconcile")
            }
            console.show([
                ("queue", .text("\(queue)")), ("channel", .text(channel.text)), ("policy", .text(policy.shown)),
            ])
        }
    }

    struct Show: Command {
        static let name = "show"
        static let users = CommandUsers.operatorsOfChannels
        static let summary = "Shows what Apple and the queue know about a channel."
        static let examples = ["channel show acme/com.acme.shop/production dHN0LXNyY2gtY2hubA=="]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The channel's ID.") var channel: ChannelID
        var management = ChannelManagement()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let stored = try await database.session { store in try await store.channels(ofQueue: queue) }
                .first { $0.channel == channel }
            let policy = try await management.withClient(of: queue, database, console) { client in
                try await client.policyIfKnown(of: channel)
            }
            guard stored != nil || policy != nil else {
                throw Failure("neither Apple nor \(queue) knows channel \(channel)")
            }
            console.show([
                ("channel", .text(channel.text)),
                ("state", .text(ChannelState(stored: stored, isAtApple: policy != nil).rawValue)),
                ("policy", .text((policy ?? stored?.policy)?.shown)), ("created_at", .time(stored?.createdAt)),
                ("throttled_until", .time(stored?.throttledUntil)), ("retired_at", .time(stored?.retiredAt)),
                ("reason", .text(stored?.retiredReason?.text)),
            ])
        }
    }

    struct Delete: Command {
        static let name = "delete"
        static let users = CommandUsers.operatorsOfChannels
        static let summary = "Deletes a channel at Apple permanently; nothing more is sent to it."
        static let examples = ["channel delete acme/com.acme.shop/production dHN0LXNyY2gtY2hubA=="]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        @Positional("The channel's ID.") var channel: ChannelID
        var confirmation = Confirmation()
        var management = ChannelManagement()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            try confirmation.ask(
                console, "deletes channel \(channel) of \(queue) at Apple for good: its subscribers get nothing more")
            let wasAtApple = try await management.withClient(of: queue, database, console) { client in
                guard try await client.policyIfKnown(of: channel) != nil else { return false }
                try await client.delete(channel)
                return true
            }
            let retired = try await database.session { store in
                try await store.retireChannels([channel], ofQueue: queue)
            }
            guard wasAtApple || retired > 0 else {
                throw Failure("neither Apple nor \(queue) knows channel \(channel)")
            }
            console.show(
                "deleted channel \(channel)", json: ["queue": .string("\(queue)"), "channel": .string(channel.text)])
        }
    }
}
