/// How much of a common room each of several contenders may take, so that one of them fills most of it while it is
/// alone, and a newcomer finds some free at once however long the others keep what they have.
///
/// Each may have up to a multiple of what is *free* (dynamic thresholds: Choudhury and Hahne, "Dynamic Queue Length
/// Thresholds for Shared-Memory Packet Switches", 1998). One alone comes to rest at four fifths of the room, two of the
/// same weight at four ninths each, and a ninth stays free for a third one.
package enum SharedRoom {
    /// What one contender may have, as a multiple of what is free.
    private static let multiple = 4.0

    /// How much more a contender may take at once; at least 1 for one that has nothing while anything is free.
    /// - Parameters:
    ///   - taken: what it has already.
    ///   - free: what nobody has.
    ///   - weight: that of the contender.
    ///   - heaviest: the largest weight among those that contend.
    package static func more(having taken: Int, free: Int, weight: Double, heaviest: Double) -> Int {
        guard free > 0 else { return 0 }
        let multiple = multiple * min(1, weight / heaviest)
        // So that what it has then is the multiple of what is free then.
        let more = (multiple * Double(free) - Double(taken)) / (1 + multiple)
        return max(taken == 0 ? 1 : 0, Int(more))
    }
}
