import Transport

/// What a connection reports to its gateway.
///
/// The delegate of each interface adds what only its own connections ask or report.
protocol ConnectionDelegate<Connection>: AnyObject {
    associatedtype Connection: PooledConnection

    /// The connection takes pushes from now on.
    func opened(_ connection: Connection)

    /// The connection takes no more pushes. The next one is opened before this one has closed, unless this one did not
    /// last.
    func startedDraining(_ connection: Connection, _ ending: ConnectionEnding)

    /// The connection is closed, and has reported a result for every push that it was given.
    func closed(_ connection: Connection)

    /// The outcomes of pushes, one batch for each read burst or for a loss.
    func deliver(_ answers: [Answer])

    /// The connection has free slots again.
    func capacityChanged()

    /// The server allows a connection its first push.
    func reached()

    /// The connection was lost with this many pushes whose outcome is unknown.
    func lost(_ reason: String, uncertain count: Int)

    /// The TLS handshake failed, or the server ended the connection before its first answer.
    func noteRefusedCertificate(_ error: TransportError)
}
