/// Which job of a lane is sent next.
enum JobChoice: Equatable {
    /// The jobs in the order in which they arrived.
    case oldest
    /// Pushes of the lane first that were never lost, and then the others in the order in which they arrived.
    case unlostFirst
    /// Untried pushes of the lane first. A refused push does not wait for untried pushes of a less urgent lane.
    case untriedFirst(End)
    /// Only an untried push, whatever its lane or queue. Used while one push at a time tries whether APNs accepts
    /// pushes again: a few pushes that APNs always refuses would fail every try, while all others wait.
    case untriedOnly(End)

    /// An end of the waiting jobs.
    enum End {
        case oldest, newest
    }
}
