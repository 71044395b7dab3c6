/// How much of a common room each of several contenders may take. A contender that is alone fills most of the room, and
/// a newcomer finds some free at once, however long the others keep theirs.
///
/// Each contender may have up to a multiple of what is *free* (dynamic thresholds: Choudhury and Hahne, "Dynamic Queue
/// Length Thresholds for Shared-Memory Packet Switches", 1998). A single contender settles at four fifths of the room,
/// two of the same weight at four ninths each, and a ninth stays free for a third one.
package enum SharedRoom {
    /// The maximum of one contender, as a multiple of what is free.
    private static let multiple = 4.0

    /// How much more a contender may take now; at least 1 for a contender that has nothing while anything is free.
    /// - Parameters:
    ///   - taken: what it has already.
    ///   - free: what no contender has.
    ///   - weight: the weight of the contender.
    ///   - heaviest: the largest weight among the contenders.
    package static func more(having taken: Int, free: Int, weight: Double, heaviest: Double) -> Int {
        guard free > 0 else { return 0 }
        let multiple = multiple * min(1, weight / heaviest)
        // Chosen so that afterwards the contender has `multiple` times what is then free.
        let more = (multiple * Double(free) - Double(taken)) / (1 + multiple)
        return max(taken == 0 ? 1 : 0, Int(more))
    }
}
