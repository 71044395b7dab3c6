/// Which jobs of a lane are sent from.
enum JobChoice: Equatable {
    /// One after the other, as they came.
    case oldest
    /// What is more urgent and was refused waits for nothing less urgent.
    case untriedFirst(End)
    /// As one push may try whether APNs serves again: a few pushes that are refused for what they are would try in
    /// vain, and all others wait. It is an untried one then, whatever its lane or queue.
    case untriedOnly(End)

    /// Of what waits.
    enum End {
        case oldest, newest
    }
}
