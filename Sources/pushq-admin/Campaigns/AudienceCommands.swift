import PostgresStore
import QueueCore
import Terminal

enum AudienceCommands {
    static let all: [CommandTree] = [
        .command(Add.self), .command(List.self), .command(Show.self), .command(Remove.self),
    ]

    struct Add: Command {
        static let name = "add"
        static let users = CommandUsers.tenants
        static let summary = "Saves a filter under a name, and shows how many devices it would reach now."
        static let discussion = """
            docs/audiences.md describes filters. Use the name with 'pushq campaign --audience NAME', or in a filter: \
            "audience NAME and seen within 7 days". A campaign keeps the filter as it was when the campaign started.
            """
        static let examples = [
            "audience add acme/com.acme.shop/production vips --filter \"locale = 'de' and tag 'vip'\"",
            "audience add acme/com.acme.shop/production vips --filter \"tag 'vip'\" --replace",
        ]

        @Option("Which devices it has, such as \"locale = 'de' and tag 'vip'\".") var filter: String
        @Flag("If the audience exists, replace its filter.") var replace
        var named = NamedAudience()

        func run(_ console: Console) async throws {
            let (filter, replace, queue, name) = (filter, replace, named.queue, named.name)
            try await named.show(
                console,
                after: { store in
                    _ = try await store.saveAudience(name, filter: filter, ofQueue: queue, isReplacing: replace)
                })
        }
    }

    struct List: Command {
        static let name = "list"
        static let users = CommandUsers.readers
        static let summary = "Lists the saved audiences of a queue."
        static let examples = [
            "audience list acme/com.acme.shop/production", "audience list acme/com.acme.shop/production --matching vip",
        ]

        @Positional("The queue: tenant/app/environment.") var queue: QueueName
        var list = ListOptions()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let (queue, selection) = (queue, list.selection)
            console.show(
                try await database.session { store in try await store.audiences(ofQueue: queue, selection) },
                columns: [
                    Column("name") { .text($0.name) }, Column("filter") { .text($0.filter) },
                    Column("created_at") { .time($0.createdAt) },
                ])
        }
    }

    struct Show: Command {
        static let name = "show"
        static let users = CommandUsers.readers
        static let summary = "Shows a saved audience, and how many devices it would reach now."
        static let examples = ["audience show acme/com.acme.shop/production vips"]

        @Option("The push type of the message: each goes to tokens of its own kind.") var pushType: PushType = .alert
        var named = NamedAudience()

        func run(_ console: Console) async throws {
            try await named.show(console, pushType: pushType)
        }
    }

    struct Remove: Command {
        static let name = "remove"
        static let users = CommandUsers.tenants
        static let summary = "Removes a saved audience; campaigns that were started with it continue."
        static let examples = ["audience remove acme/com.acme.shop/production vips"]

        var named = NamedAudience()
        var confirmation = Confirmation()

        func run(_ console: Console) async throws {
            let (queue, name) = (named.queue, named.name)
            if !confirmation.isGiven {
                // Checks first, so that the command does not ask about a removal that would be refused.
                let known = try await named.database.session { store in
                    try await store.checkRemoval(ofAudience: name, ofQueue: queue)
                    return try await store.audiences(ofQueue: queue)
                }
                guard let audience = known.first(where: { $0.name == name }) else { throw named.isMissing }
                try confirmation.ask(console, "deletes audience \(name) (\(audience.filter))")
            }
            let wasThere = try await named.database.session { store in
                try await store.removeAudience(name, ofQueue: queue)
            }
            guard wasThere else { throw named.isMissing }
            console.show(
                "removed \(name)", json: ["queue": .string("\(queue)"), "audience": .string(name)])
        }
    }
}

/// The saved audience that a command refers to.
struct NamedAudience: ParameterGroup {
    @Positional("The queue: tenant/app/environment.") var queue: QueueName
    @Positional("The audience's name.") var name: String
    var database = DatabaseOptions()

    /// The failure if there is no audience of that name.
    var isMissing: Failure {
        Failure("there is no audience \(name) in \(queue); list them with: pushq-admin audience list \(queue)")
    }

    /// Shows the audience with its estimate, after `change` was made.
    ///
    /// - Throws: ``Failure`` if the queue has no audience of that name.
    func show(
        _ console: Console, pushType: PushType = .alert,
        after change: @Sendable (PostgresConnection) async throws -> Void = { _ in }
    ) async throws {
        let (queue, name) = (queue, name)
        let estimate = try await database.session { store in
            try await change(store)
            return try await store.audience(name, ofQueue: queue, pushType: pushType)
        }
        guard let estimate else { throw isMissing }
        console.show([
            ("queue", .text("\(queue)")), ("name", .text(name)), ("filter", .text(estimate.audience.filter)),
            ("recipients", .count(estimate.recipients)), ("inactive_left_out", .count(estimate.inactive)),
            ("created_at", .time(estimate.audience.createdAt)),
        ])
    }
}
