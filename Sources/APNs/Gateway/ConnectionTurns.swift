/// Who gives up a connection, where there are fewer than are wanted: by turns, in proportion to weight.
///
/// Whoever has more than its share gives one up soon; where all have their share, which may be one for two, each keeps what it has for a
/// turn. A connection that gives way takes no more pushes, awaits its answers and closes: nothing is lost by it.
struct ConnectionTurns {
    /// How long a contender of weight 1 keeps a connection while somebody waits for it. Apple takes it for an attack when connections
    /// come and go in quick succession.
    var turn = Duration.seconds(5)
    /// The shortest time that a connection serves, whoever waits.
    var least = Duration.seconds(1)

    /// A contender for connections.
    struct Contender {
        let weight: Double
        /// Connections that it has.
        let connections: Int

        var load: Double { Double(connections) / weight }
    }

    /// Weights count up to so many times one another: a turn of hours serves nobody.
    private static let weights = 0.25...4.0

    /// Whether a connection of `holder` that was opened `age` ago is to be given up for one of `seeker`.
    func isOver(after age: Duration, of holder: Contender, for seeker: Contender) -> Bool {
        let withOneMore = Contender(weight: seeker.weight, connections: seeker.connections + 1)
        if holder.load > withOneMore.load { return age >= least }
        // It has its share.
        if seeker.load >= holder.load { return false }
        return age >= max(least, turn * min(max(holder.weight, Self.weights.lowerBound), Self.weights.upperBound))
    }
}
