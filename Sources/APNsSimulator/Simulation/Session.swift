/// A client's connection on which pushes come, whatever the interface. It stays alive until it ends.
protocol Session: AnyObject {
    /// Counts and record know it by this number.
    var number: Int { get }

    /// Drops the connection without a word: the client gets a reset.
    func drop()
}
