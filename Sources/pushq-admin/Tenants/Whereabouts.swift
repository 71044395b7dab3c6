import PostgresStore

/// Where a tenant is, as one database knows it.
enum Whereabouts {
    case here
    case leaving(to: String)
    /// The tenant is still in this database, but no session can use it.
    case stopped(leavingTo: String)
    case moved(to: String)
    case arriving(from: String)
    case arrived(from: String)

    init(_ place: TenantPlace) {
        self =
            switch place.move {
            case nil: .here
            case (.moved, true, let peer)?: place.isHere ? .here : .moved(to: peer)
            case (.detached, true, let peer)?: .stopped(leavingTo: peer)
            case (_, true, let peer)?: .leaving(to: peer)
            case (.arrived, false, let peer)?: .arrived(from: peer)
            case (_, false, let peer)?: .arriving(from: peer)
            }
    }

    var isStopped: Bool { if case .stopped = self { true } else { false } }
    var isMoved: Bool { if case .moved = self { true } else { false } }
    var isArriving: Bool { if case .arriving = self { true } else { false } }
}

extension Whereabouts: CustomStringConvertible {
    var description: String {
        switch self {
        case .here: "here"
        case .leaving(let peer): "here, moving to \(peer)"
        case .stopped(let peer): "stopped, moving to \(peer)"
        case .moved(let peer): "moved to \(peer)"
        case .arriving(let peer): "arriving from \(peer)"
        case .arrived(let peer): "here, just moved from \(peer)"
        }
    }
}
