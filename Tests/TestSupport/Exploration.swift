import Foundation
package import Testing

/// The seeds of worlds of random events: from 1 on, and `count` of them, or as many times more as `PUSHQ_EXPLORATION`
/// says. `.ci/run` sets it, so that a test is quick and each change is still held to many worlds.
package func seeds(_ count: UInt64) -> ClosedRange<UInt64> {
    let factor = ProcessInfo.processInfo.environment["PUSHQ_EXPLORATION"].flatMap(UInt64.init) ?? 1
    return 1...max(1, count * factor)
}

/// Runs worlds of random events, one for each of the ``seeds(_:)``, and records as the test's issue which promise the
/// first one of them broke, or what hardly happened in all of them together: then they show nothing of it.
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
    for seed in seeds(count) {
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

/// The promise that is broken first in worlds of random events, one for each seed from 1 to `count`; nil if none is.
package func firstBroken<Promise>(seeds count: UInt64, _ run: (_ seed: UInt64) -> Promise?) -> Promise? {
    for seed in 1...count {
        if let promise = run(seed) { return promise }
    }
    return nil
}
