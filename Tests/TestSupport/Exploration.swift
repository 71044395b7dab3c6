package import Testing

/// Runs worlds of random events, one for each seed from 1 on, and records as the test's issue which promise the first one of them broke,
/// or what hardly happened in all of them together: then they show nothing of it.
/// - Parameters:
///   - count: how many seeds.
///   - events: what must have happened, each more than `minimum` times.
///   - run: runs the world of a seed, and returns what it broke, if anything, and how often each thing happened in it.
package func explore(
    seeds count: UInt64, reaching events: [String], moreThan minimum: Int,
    sourceLocation: SourceLocation = #_sourceLocation,
    _ run: (_ seed: UInt64) -> (violation: String?, reached: [String: Int])
) {
    var reached: [String: Int] = [:]
    for seed in 1...count {
        let world = run(seed)
        if let violation = world.violation {
            Issue.record("seed \(seed): \(violation)", sourceLocation: sourceLocation)
            return
        }
        reached.merge(world.reached, uniquingKeysWith: +)
    }
    for event in events {
        #expect(
            reached[event, default: 0] > minimum, "the exploration has become too small to reach: \(event)",
            sourceLocation: sourceLocation)
    }
}

/// The promise that is broken first in worlds of random events, one for each seed from 1 on; nil if none is.
package func firstBroken<Promise>(seeds count: UInt64, _ run: (_ seed: UInt64) -> Promise?) -> Promise? {
    (1...count).lazy.compactMap(run).first
}
