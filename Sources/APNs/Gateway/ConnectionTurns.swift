/// Decides which gateway gives up a connection when there are too few. Gateways take turns, in proportion to their
/// weight.
///
/// A gateway with more than its share gives one up soon. If all have their share, which may be one connection for two
/// gateways, each keeps its connection for a turn while it sends. It gives the connection up soon when it has nothing
/// to send: if a thousand gateways wait with one push each, no connection stands idle for the rest of a turn. A
/// connection that gives way takes no more pushes, waits for its answers and closes, so nothing is lost.
struct ConnectionTurns {
    /// How long a gateway of weight 1 keeps a connection while another one waits for it. Apple considers connections in
    /// quick succession an attack.
    var turn = Duration.seconds(5)
    /// The minimum time for which a connection is kept, and for which it must have been idle to be given up before the
    /// turn ends.
    var minimum = Duration.seconds(1)

    /// A gateway that has connections or waits for one.
    struct Contender {
        let weight: Double
        /// The number of its connections.
        let connections: Int
        /// How long the connection that it may give up has had nothing in flight.
        var idle = Duration.zero

        var load: Double { Double(connections) / weight }
    }

    /// The range to which weights are clamped, since a turn of hours would make the other gateways wait for hours.
    private static let weights = 0.25...4.0

    /// Whether `holder` must give up a connection that was opened `age` ago, so that `seeker` gets one.
    func isOver(after age: Duration, of holder: Contender, for seeker: Contender) -> Bool {
        let withOneMore = Contender(weight: seeker.weight, connections: seeker.connections + 1)
        if holder.load > withOneMore.load { return age >= minimum }
        // The seeker has its share.
        if seeker.load >= holder.load { return false }
        if holder.idle >= minimum { return age >= minimum }
        return age >= max(minimum, turn * min(max(holder.weight, Self.weights.lowerBound), Self.weights.upperBound))
    }
}
