/// Who waits for which host name. A name that is being looked up is not looked up a second time: further callers wait
/// for the same answer, so that there are never more look-ups than names. Nothing is cached: Apple's addresses change,
/// and every connection is to resolve anew.
struct PendingLookUps {
    /// What is looked up.
    struct Name: Hashable, Sendable {
        let host: String
        let port: UInt16
    }

    typealias Answer = Result<[SocketAddress], ResolverFailure>

    private var waiting: [Name: [(Answer) -> Void]] = [:]

    /// Has `completion` called with the answer for `name`. Returns whether the caller has to start the look-up.
    mutating func join(_ name: Name, _ completion: @escaping (Answer) -> Void) -> Bool {
        waiting[name, default: []].append(completion)
        return waiting[name]?.count == 1
    }

    /// The look-up of `name` has ended: returns who is to be told.
    mutating func end(_ name: Name) -> [(Answer) -> Void] {
        waiting.removeValue(forKey: name) ?? []
    }
}
