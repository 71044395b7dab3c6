/// A client's connection that carries pushes, over either interface. It stays alive until it ends.
protocol Session: AnyObject {
    /// The number of the session in counts and record.
    var number: Int { get }

    /// Drops the connection; the client gets a reset.
    func drop()
}
