import Cryptography
import HTTP1
import PostgresStore
import Terminal
import Transport

struct WebhookSetCommand: Command {
    static let name = "set"
    static let users = CommandUsers.ofWebhooks
    static let summary = "Sends reports about a tenant's devices to a URL."
    static let discussion = """
        A worker posts which tokens were deactivated, as 'pushq-admin feedback export' shows it, beginning with new \
        reports. If the tenant already has a webhook, it is changed and continues where it is. docs/webhooks.md says \
        what a receiver gets and how it checks the signature.

        A new webhook gets a secret, which is shown once: give it to the receiver. Later, --new-secret makes another \
        one. For a day messages are signed with both secrets, so that the receiver has time to change to the new one. \
        If you make another one within this time, the secret from before both stays valid, and the first new one ends \
        at once; the command asks before that. A former secret under a master key that this command does not have is \
        not kept either, since no worker could sign with both.

        Workers connect to addresses of the internet only, unless they were started with --webhook-allow. Without TLS they \
        connect only to networks that are named there.

        The master key is read from PUSHQ_MASTER_KEY_FILE or PUSHQ_MASTER_KEY.
        """
    static let examples = [
        "webhook set acme --url https://push.acme.example/devices",
        "webhook set acme --url https://push.acme.example/devices --secret-file secret.txt",
        "webhook set acme --new-secret --former-for 3d",
    ]

    @Positional("The tenant.") var tenant: TenantName
    @Option("Where reports are sent to: https://HOST[:PORT]/PATH.") var url: WebAddress?
    @Option("A file with the secret: whsec_ and base64 of 24 to 64 bytes; - is standard input.", "FILE")
    var secretFile: InputFile?
    @Flag("Make a new secret.") var newSecret
    @Option("With a new secret: how long messages are also signed with the former one. By default a day.")
    var formerFor: Duration?
    var confirmation = Confirmation()
    var database = DatabaseOptions()

    /// A secret that was replaced, perhaps because it leaked, should not be valid for years by a slip.
    private static let longestFormerFor = Duration.seconds(90 * 86_400)

    func run(_ console: Console) async throws {
        guard secretFile == nil || !newSecret else { throw UsageError("give one of --secret-file and --new-secret") }
        guard url != nil || secretFile != nil || newSecret else {
            throw UsageError("give --url, --secret-file or --new-secret")
        }
        guard formerFor == nil || secretFile != nil || newSecret else {
            throw UsageError("--former-for goes with --secret-file or --new-secret")
        }
        if let formerFor, formerFor > Self.longestFormerFor {
            throw UsageError("--former-for \(formerFor.shown) is more than \(Self.longestFormerFor.shown)")
        }
        let (name, formerFor) = (tenant.text, formerFor ?? .seconds(86_400))
        let given = try secretFile.map(Self.secret)
        let masterKeys = try MasterKeySetting().keys(console.warn)
        if secretFile != nil || newSecret, !confirmation.isGiven {
            let webhook = try await database.session { store in try await store.webhook(of: name) }?.webhook
            let missing = Self.missingKey(of: webhook, among: masterKeys)
            if let loss = Self.loss(of: webhook, formerFor: missing == nil ? formerFor : .zero) {
                let reason = missing.map { "\(Self.unreadable($0)); " } ?? ""
                try confirmation.ask(
                    console, "ends \(loss) of the webhook of \(name) at once: \(reason)\(Self.refusal)")
            }
        }
        let (made, missing) = try await database.session { store in
            guard let place = try await store.webhook(of: name) else {
                try await store.refuseMoved(name)
                throw Failure.noTenant(name)
            }
            guard url != nil || place.webhook != nil else { throw Failure.noWebhook(of: name) }
            let made = given == nil && (newSecret || place.webhook == nil) ? try WebhookSecret.random() : nil
            let sealed = try (given ?? made).map { secret in
                try masterKeys.seal(secret.bytes, for: .webhook(tenantID: place.tenantID))
            }
            let missing = sealed == nil ? nil : Self.missingKey(of: place.webhook, among: masterKeys)
            try await store.setWebhook(
                ofTenant: place.tenantID, url: url?.text, sealed: sealed, formerFor: missing == nil ? formerFor : .zero)
            return (made, missing)
        }
        if let missing, formerFor > .zero {
            console.remark("messages are signed with the new secret only: \(Self.unreadable(missing))")
        }
        warn(on: console)
        let text = "set the webhook of \(name)"
        console.show(
            made.map { "\(text); its secret, which is not shown again: \($0.text)" } ?? text,
            json: .object([("tenant", .string(name))] + (made.map { [("secret", .string($0.text))] } ?? [])))
    }

    /// Says which secrets that a receiver may use end at once.
    private static func loss(of webhook: WebhookSummary?, formerFor: Duration) -> String? {
        guard let webhook else { return nil }
        if formerFor == .zero { return webhook.formerUntil == nil ? "the secret" : "both secrets" }
        return webhook.formerUntil.map { until in
            "the last secret, and not the one before it, which is valid until \(Cell.time(until).text),"
        }
    }

    /// The master key of the secret that would stay valid beside a new one, if it is not among `keys`. A worker signs
    /// with both secrets or not at all, so one whose key is lost would stop the webhook.
    private static func missingKey(of webhook: WebhookSummary?, among keys: MasterKeys) -> MasterKeyName? {
        guard let webhook, let name = MasterKeyName(in: webhook.formerSealed ?? webhook.sealed),
            !keys.names.contains(name)
        else { return nil }
        return name
    }

    private static func unreadable(_ key: MasterKeyName) -> String {
        "the former one is sealed under master key \(key), which this command does not have"
    }

    private static let refusal = "a receiver that has no other one refuses reports until it has the new one"

    private static func secret(in file: InputFile) throws -> WebhookSecret {
        CoreDumps.forbid()
        guard let secret = WebhookSecret(String(decoding: try file.contents(), as: UTF8.self)) else {
            throw Failure(
                "\(file.name) does not contain a webhook secret: \(WebhookSecret.prefix) and base64 of 24 to 64 bytes; "
                    + "make one with: echo whsec_$(openssl rand -base64 32)")
        }
        return secret
    }

    private func warn(on console: Console) {
        if let file = secretFile, let warning = SecretFile(file.path).warning { console.warn(warning) }
        guard let url else { return }
        if !url.isSecure {
            console.remark(
                "\(url.host) gets tokens without TLS, and only from workers that were started with --webhook-allow for "
                    + "its network")
        } else if Self.isInternal(url.host) {
            console.remark(
                "\(url.host) is not an address of the internet: only workers that were started with --webhook-allow for its "
                    + "network send there")
        }
    }

    /// Whether workers refuse the host, as far as can be told without looking it up: workers check the addresses when
    /// they connect. Names below localhost are this machine (RFC 6761 §6.3).
    private static func isInternal(_ host: String) -> Bool {
        if let address = IPAddress(host) { return !AddressRules().admits(address) }
        return host == "localhost" || host.hasSuffix(".localhost")
    }
}
