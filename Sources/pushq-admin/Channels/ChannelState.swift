import PostgresStore

/// Who knows a channel.
enum ChannelState: String, CaseIterable {
    /// Apple and the queue: it is broadcast to.
    case active
    /// Nothing is sent to it any more.
    case retired
    /// The queue alone: what is broadcast to it will be refused.
    case unknownToApple = "unknown to Apple"
    /// Apple alone: it was created elsewhere.
    case unknownHere = "unknown here"

    init(stored: StoredChannel?, isAtApple: Bool) {
        self =
            switch (stored, isAtApple) {
            case (nil, _): .unknownHere
            case (let stored?, _) where stored.retiredAt != nil: .retired
            case (_, false): .unknownToApple
            case (_, true): .active
            }
    }
}
