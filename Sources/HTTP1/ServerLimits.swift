/// The times and numbers that bound the clients of a ``Server``.
package struct ServerLimits: Sendable {
    /// Connections at a time; a further one is closed at once.
    package var connections = 64
    /// How long a client may take for the head of a request, from its first byte on.
    package var headTime = Duration.seconds(10)
    /// How long a connection may wait for its next request: longer than Prometheus waits between two scrapes.
    package var idleTime = Duration.seconds(150)
    /// How long a client may take to read an answer.
    package var answerTime = Duration.seconds(30)

    package init() {}
}

/// Answers a request: calls the function that it is given once, on the loop, at once or later.
package typealias Answering = (RequestHead, @escaping (Response) -> Void) -> Void
