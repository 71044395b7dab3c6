/// Which job of a lane is sent next.
enum JobChoice: Equatable {
    /// The jobs in the order in which they arrived.
    case oldest
    /// First the lane's pushes that were never lost, and then the others in the order in which they arrived.
    case unlostFirst
    /// First the lane's untried pushes. A refused push does not wait for untried pushes of a less urgent lane.
    case untriedFirst(End)
    /// Only an untried push, whatever its lane or queue. Used while one push at a time tries whether APNs accepts
    /// pushes again: a few pushes that APNs always refuses would fail every try, while all others wait.
    case untriedOnly(End)

    /// An end of the waiting jobs.
    enum End {
        case oldest, newest
    }
}
