import Transport

/// One of a gateway's connections.
protocol PooledConnection: AnyObject {
    /// How many pushes it takes now.
    var freeSlots: Int { get }
    /// How many of its pushes have no outcome yet.
    var inFlightCount: Int { get }
    /// Whether the server has shown that it serves this connection.
    var hasAnswered: Bool { get }
    /// Whether the server has ended the connection in order, and named requests that it will answer or let in those
    /// that were on their way.
    var hasAdmittedRequests: Bool { get }
    /// Whether the server has accepted the connection, and not allowed one push on it yet, or none for a while.
    var isShutOut: Bool { get }
    /// Whether it takes few pushes only for the sake of one that was lost before, and has done so for a moment.
    var isShortForNow: Bool { get }
    /// Whether it gets no more pushes because the server does not answer those in flight.
    var isSetAside: Bool { get }
    /// Whether it had had nothing to do for ``GatewaySettings/quietTime`` when it got the pushes in flight, and nothing
    /// was answered since. The server may have closed it before these pushes reached it.
    var isBeingWoken: Bool { get }
    var openedAt: ContinuousClock.Instant { get }
    /// The address that it is connected to.
    var address: IPAddress? { get }
    /// When a push was last given to it.
    var lastRequest: ContinuousClock.Instant { get }

    /// Takes no more pushes, waits for the answers to those in flight, and closes.
    func drain(_ ending: ConnectionEnding)
    /// Closes at once and gives up the pushes that have no outcome.
    func close()
}

/// Why a connection takes no more pushes.
enum ConnectionEnding {
    /// The gateway does not need it any more: it is idle, or the gateway drains, or tries another one.
    case unneeded
    /// It ended as connections of its kind do; another one may be opened at once.
    case usedUp
    /// The server ended it in order, by GOAWAY without an error, and without another reason than `Shutdown`, after it
    /// answered this many requests or said that it will. Many servers do that after a certain number of requests.
    case retired(answers: Int)
    /// The answer to a push ended it, after it had served this many others; or it had served none, but the push was not
    /// taken over another connection either, which served others.
    case spoilt(served: Int, isRepeated: Bool)
    /// The server ended it for another reason, by GOAWAY or by an answer.
    case asked(String)
    /// The server, or something in between, closed it without a word or reset it.
    case closed(String)
    /// The same, but a push in flight is to blame: the connection had served many, or all in flight were lost before
    /// while others are served.
    case closedByPush(served: Int, isRepeated: Bool)
    /// It went silent, or the peer broke the protocol.
    case failed(String)
    /// It answered nothing, like all others. The gateway's owner knows that, and waits between its tries.
    case silent
}
