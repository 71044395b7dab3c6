import Foundation
package import Testing

/// The seeds of worlds of random events: from 1 to `count`, or to a multiple of `count` if `PUSHQ_EXPLORATION` gives a
/// factor. So a test is quick by default, and tries as many worlds as somebody has time for.
package func seeds(_ count: UInt64) -> ClosedRange<UInt64> {
    let factor = ProcessInfo.processInfo.environment["PUSHQ_EXPLORATION"].flatMap(UInt64.init) ?? 1
    return 1...max(1, count * factor)
}

/// Runs worlds of random events, one for each of the ``seeds(_:)``. Records an issue of the test for the promise that
/// the first failing world broke. Also records one if an event hardly happened in all worlds together, because then the
/// worlds show nothing about it.
/// - Parameters:
///   - count: the number of seeds.
///   - events: the events that must have happened, each more than `minimum` times.
///   - run: runs the world of a seed, and returns the promise that it broke, if any, and how often each event happened.
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

/// Returns the first promise broken in worlds of random events, one for each seed from 1 to `count`; nil if none is
/// broken.
package func firstBroken<Promise>(seeds count: UInt64, _ run: (_ seed: UInt64) -> Promise?) -> Promise? {
    for seed in 1...count {
        if let promise = run(seed) { return promise }
    }
    return nil
}
