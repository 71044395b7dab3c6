import PostgresStore

/// Whether Apple, the queue or both know a channel.
enum ChannelState: String, CaseIterable {
    /// Both know it: broadcasts to it are sent.
    case active
    /// Nothing is sent to it.
    case retired
    /// Only the queue knows it: APNs will refuse broadcasts to it.
    case unknownToApple = "unknown to Apple"
    /// Only Apple knows it: it was created elsewhere.
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
