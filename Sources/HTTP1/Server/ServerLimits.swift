/// The times and numbers that bound the clients of a ``Server``.
package struct ServerLimits: Sendable {
    /// Connections at a time. A further one takes the place of the one that has been idle for longest; if none has been
    /// for a second, it is closed at once.
    package var connections = 64
    /// How long a client may take for a request, from its first byte on.
    package var requestTime = Duration.seconds(10)
    /// The most bytes of the body of a request. Above 0, POST is known, too.
    package var bodyBytes = 0
    /// How long a connection may wait for its next request: longer than Prometheus waits between two scrapes.
    package var idleTime = Duration.seconds(150)
    /// How long a client may take to read an answer.
    package var answerTime = Duration.seconds(30)

    package init() {}

    /// The methods that are known beside HEAD.
    var methods: [String] { bodyBytes > 0 ? ["GET", "POST"] : ["GET"] }
}

/// What a client asks for.
package struct Request: Equatable, Sendable {
    package let head: RequestHead
    /// Empty, unless the server's limits allow a body.
    package let body: [UInt8]
}

/// Answers a request: calls the function that it is given once, on the loop, at once or later.
package typealias Answering = (Request, @escaping (Response) -> Void) -> Void
