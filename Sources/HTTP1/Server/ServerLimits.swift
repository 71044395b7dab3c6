/// The limits for the clients of a ``Server``.
package struct ServerLimits: Sendable {
    /// The maximum number of open connections. A further one replaces the connection that has been idle for longest. If
    /// none has been idle for a second, the new one is closed at once.
    package var connections = 64
    /// How long a client may take for a request, from its first byte on.
    package var requestTime = Duration.seconds(10)
    /// The maximum bytes of a request's body. Above 0, the server knows POST, too.
    package var bodyBytes = 0
    /// How long a connection may wait for its next request: longer than Prometheus waits between two scrapes.
    package var idleTime = Duration.seconds(150)
    /// How long making an answer may take, and how long the client may then take to read it.
    package var answerTime = Duration.seconds(30)

    package init() {}

    /// The methods that the server knows beside HEAD.
    var methods: [String] { bodyBytes > 0 ? ["GET", "POST"] : ["GET"] }
}

/// A client's request.
package struct Request: Equatable, Sendable {
    package let head: RequestHead
    /// Empty, unless the server's limits allow a body.
    package let body: [UInt8]
}

/// Answers a request. It calls the given function once, on the loop, at once or later.
package typealias Answering = (Request, @escaping (Response) -> Void) -> Void
