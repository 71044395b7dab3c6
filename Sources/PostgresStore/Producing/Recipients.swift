package import QueueCore

/// The recipients of a send.
package enum Recipients: Sendable {
    case tokens([DeviceToken])
    /// All active devices of these users.
    case users([String])

    var tokens: [String]? {
        if case .tokens(let tokens) = self { tokens.map(\.hex) } else { nil }
    }

    // A single user is passed as `user_key`, because the key of a send identifies one user in that form.
    var userKey: String? {
        if case .users(let keys) = self, keys.count == 1 { keys[0] } else { nil }
    }

    var userKeys: [String]? {
        if case .users(let keys) = self, keys.count > 1 { keys } else { nil }
    }
}
