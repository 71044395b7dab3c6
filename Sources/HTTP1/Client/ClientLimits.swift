/// The times and numbers that bound a request of a ``Client``.
package struct ClientLimits: Sendable {
    /// For the look-up of the name, the connection and the TLS handshake together.
    package var connect = Duration.seconds(5)
    /// From the look-up of the name to the status of the answer.
    package var total = Duration.seconds(15)
    /// How long the rest of an answer is read and dropped, so that the server can end in order.
    package var linger = Duration.seconds(1)
    /// How much of it at most.
    package var lingerBytes = 64 * 1024

    package init() {}
}
