/// The limits for a request of a ``Client``.
package struct ClientLimits: Sendable {
    /// The time for the look-up of the name, the connection and the TLS handshake together.
    package var connect = Duration.seconds(5)
    /// The time from the look-up of the name to the status of the answer.
    package var total = Duration.seconds(15)
    /// How long the client reads and drops the rest of an answer, so that the server can end in order.
    package var linger = Duration.seconds(1)
    /// The maximum number of bytes that are dropped in this way.
    package var lingerBytes = 64 * 1024

    package init() {}
}
