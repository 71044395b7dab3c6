/// One of a gateway's connections.
protocol PooledConnection: AnyObject {
    /// How many pushes it takes now.
    var freeSlots: Int { get }
    /// How many pushes it was given whose outcome is not known.
    var inFlightCount: Int { get }
    /// Whether the server has shown that it serves this connection.
    var hasAnswered: Bool { get }
    /// Whether it gets no pushes, because those that it has are not answered.
    var isSetAside: Bool { get }
    var openedAt: ContinuousClock.Instant { get }
    /// When a push was last given to it.
    var lastRequest: ContinuousClock.Instant { get }

    /// Takes no more pushes, awaits what is due, and closes.
    func drain(_ ending: ConnectionEnding)
    /// Closes at once; pushes without an outcome are given up.
    func close()
}

/// Why a connection takes no more pushes.
enum ConnectionEnding {
    /// The gateway is done with it: idle, or drained.
    case unneeded
    /// It ended as connections of its kind do, and nothing speaks against another one at once.
    case usedUp
    /// The server asked for it, or an answer said so.
    case asked(String)
    /// Broken, silent, or against the rules.
    case failed(String)
}
