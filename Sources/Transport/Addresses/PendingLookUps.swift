/// The callers that wait for each host name. Callers that ask for a name during its look-up wait for the same answer,
/// so there are never more look-ups than names. Nothing is cached: Apple's addresses change, and every connection has
/// to resolve anew.
struct PendingLookUps {
    /// The host and port that are looked up.
    struct Name: Hashable, Sendable {
        let host: String
        let port: UInt16
    }

    typealias Answer = Result<[SocketAddress], ResolverFailure>

    private var waiting: [Name: [(Answer) -> Void]] = [:]

    /// Adds `completion`, to be called with the answer for `name`. Returns whether the caller has to start the look-up.
    mutating func join(_ name: Name, _ completion: @escaping (Answer) -> Void) -> Bool {
        waiting[name, default: []].append(completion)
        return waiting[name]?.count == 1
    }

    /// Ends the look-up of `name` and returns the callers' completions.
    mutating func end(_ name: Name) -> [(Answer) -> Void] {
        waiting.removeValue(forKey: name) ?? []
    }
}
