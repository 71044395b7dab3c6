import Terminal

extension CommandUsers {
    /// The users of all commands about webhooks.
    static let ofWebhooks = operators(
        because: "webhooks are signed with secrets that the master key opens, which tenants do not have")
}
