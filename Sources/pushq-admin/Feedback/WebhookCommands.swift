package import HTTP1
import PostgresStore
package import Terminal

enum WebhookCommands {
    static let all: [CommandTree] = [
        .command(WebhookSetCommand.self), .command(Show.self), .command(WebhookTestCommand.self),
        .command(Remove.self),
    ]

    struct Show: Command {
        static let name = "show"
        static let users = CommandUsers.ofWebhooks
        static let summary = "Shows where reports about a tenant's devices are sent, and whether they arrive."
        static let discussion = """
            lost_up_to is shown if the receiver did not take reports for as long as they are kept: it will never get \
            some of the reports up to that time. 'webhook set --url' clears it.
            """
        static let examples = ["webhook show acme"]

        @Positional("Its name.") var tenant: TenantName
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let name = tenant.text
            let (_, webhook) = try await database.session { store in try await store.presentWebhook(of: name) }
            console.show(
                [
                    ("tenant", .text(name)), ("url", .text(webhook.url)), ("created_at", .time(webhook.createdAt)),
                    ("former_secret_until", .time(webhook.formerUntil)), ("cursor", .text("\(webhook.cursor)")),
                    ("behind", .yes(webhook.isBehind)), ("delivered_at", .time(webhook.deliveredAt)),
                    ("lost_up_to", .time(webhook.lostTo)),
                    ("failures", .count(webhook.failures)), ("failing_since", .time(webhook.failingSince)),
                    ("next_try_at", .time(webhook.nextTryAt)), ("problem", .text(webhook.problem)),
                ])
        }
    }

    struct Remove: Command {
        static let name = "remove"
        static let users = CommandUsers.ofWebhooks
        static let summary = "Stops sending reports about a tenant's devices."
        static let discussion = """
            The reports are kept, and can be read with 'pushq-admin feedback'. A webhook that is set later begins with \
            reports from then on.
            """
        static let examples = ["webhook remove acme"]

        @Positional("Its name.") var tenant: TenantName
        var confirmation = Confirmation()
        var database = DatabaseOptions()

        func run(_ console: Console) async throws {
            let name = tenant.text
            if !confirmation.isGiven {
                let (_, webhook) = try await database.session { store in try await store.presentWebhook(of: name) }
                let unaccepted = webhook.isBehind ? "; what it has not accepted yet is sent to nobody" : ""
                try confirmation.ask(
                    console,
                    "deletes the webhook of \(name), \(webhook.url), with its secret and its place in the reports"
                        + unaccepted)
            }
            try await database.session { store in
                guard try await store.removeWebhook(of: name) else {
                    _ = try await store.presentWebhook(of: name)
                    throw Failure.noWebhook(of: name)
                }
            }
            console.show("removed the webhook of \(name)", json: ["tenant": .string(name)])
        }
    }
}

extension PostgresConnection {
    /// Returns a tenant's webhook and the tenant's number. Throws if there is no webhook.
    func presentWebhook(of tenant: String) async throws -> (tenantID: Int32, webhook: WebhookSummary) {
        guard let place = try await webhook(of: tenant) else {
            try await refuseMoved(tenant)
            throw Failure.noTenant(tenant)
        }
        guard let webhook = place.webhook else { throw Failure.noWebhook(of: tenant) }
        return (place.tenantID, webhook)
    }
}

extension Failure {
    /// The tenant has no webhook.
    static func noWebhook(of tenant: String) -> Failure {
        Failure("\(tenant) has no webhook; set one with: pushq-admin webhook set \(tenant) --url https://HOST/PATH")
    }
}

extension WebAddress: ArgumentValue {
    package static var placeholder: String { "URL" }

    /// The URL may contain a password, given by mistake, or a token in its path.
    package static let isConfidential = true

    package static func parse(_ text: String) throws(InvalidValue) -> WebAddress {
        do throws(WebAddressFault) {
            return try WebAddress(parsing: text)
        } catch {
            throw InvalidValue("\(error)")
        }
    }
}
