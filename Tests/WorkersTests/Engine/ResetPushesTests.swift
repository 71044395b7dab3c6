import APNs
import HTTP2
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// Pushes whose streams APNs, or a proxy before it, always resets, while it takes all others.
@Suite(.timeLimit(.minutes(10))) struct `A campaign of which some pushes are always reset` {
    /// How a server deals with a campaign.
    struct Course: Sendable, CustomTestStringConvertible {
        let devices: Int
        /// Of 256 devices, so many have pushes that are always reset.
        let reset: Int
        /// How long the server takes for its other answers, and for the resets.
        var delay = Duration.zero
        var resetDelay = Duration.zero

        var testDescription: String {
            "\(reset) of 256 reset after \(resetDelay), the others answered after \(delay)"
        }

        /// Whether the pushes to a token are reset. The fixture's tokens are hashes behind a zero byte.
        func resets(_ token: some StringProtocol) -> Bool {
            token.hasPrefix("00") && Int(token.dropFirst(2).prefix(2), radix: 16) ?? 256 < reset
        }
    }

    /// What the server has seen.
    private struct Seen {
        /// How often the push to each token came.
        var pushes: [String: Int] = [:]
        var urgent = 0
        /// When the last push that is neither urgent nor reset was answered.
        var lastAnswer: ContinuousClock.Instant?
    }

    private static let urgentToken = String(repeating: "ab", count: 32)

    private static func act(on request: MockAPNs.Request, after delay: Duration, _ action: @escaping () -> Void) {
        guard delay > .zero else { return action() }
        request.connection.stream.loop.schedule(after: delay) { if !request.connection.isClosed { action() } }
    }

    @Test(arguments: [
        Course(devices: 2000, reset: 3), Course(devices: 2000, reset: 3, delay: .milliseconds(20)),
        Course(devices: 2000, reset: 26), Course(devices: 2000, reset: 26, delay: .milliseconds(20)),
        Course(devices: 2000, reset: 3, resetDelay: .milliseconds(50)),
    ])
    func `delivers all others, and urgent pushes at once, and the reset ones are unknown after five losses`(
        course: Course
    ) async throws {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue(devices: course.devices)
            let seen = Locked(Seen())
            let server = try MockAPNs(on: actor.loop) { request in
                let token = String(request.fields[":path"]?.suffix(64) ?? "")
                seen.withLock { $0.pushes[token, default: 0] += 1 }
                if token == Self.urgentToken { seen.withLock { $0.urgent += 1 } }
                let isReset = course.resets(token)
                Self.act(on: request, after: isReset ? course.resetDelay : course.delay) {
                    if isReset {
                        request.connection.reset(request.streamID, .internalError)
                    } else {
                        if token != Self.urgentToken { seen.withLock { $0.lastAnswer = .now } }
                        request.answer()
                    }
                }
            }
            defer { server.close() }
            let endpoint = try server.endpoint
            let tokens = try await fixture.text("select string_agg(encode(token, 'hex'), ' ') from pushq.device")
                .split(separator: " ").map(String.init)
            let poisoned = tokens.filter(course.resets)
            try await fixture.withEngine {
                $0.endpoint = endpoint
                $0.connections.growthInterval = .milliseconds(20)
            } _: { _ in
                let (begun, stopwatch) = (ContinuousClock.now, Stopwatch())
                try await fixture.startCampaign(queue)
                let good = tokens.count - poisoned.count
                var (slowest, isSent) = (Duration.zero, 0)
                let unfinished = "select count(*) from pushq.campaign_progress where not finished"
                while try await fixture.number(unfinished) > 0, stopwatch.quietTime < .seconds(150) {
                    isSent += 1
                    let sent = Stopwatch()
                    _ = try await fixture.number(
                        """
                        select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array['\(Self.urgentToken)'],
                            urgent => true)
                        """)
                    try await eventually("urgent push \(isSent) to arrive", within: .seconds(20)) {
                        seen.withLock { $0.urgent } >= isSent
                    }
                    slowest = max(slowest, sent.quietTime)
                    // After a while nothing is served for longer than it counts as lately.
                    try await Task.sleep(for: isSent < 8 ? .seconds(1) : .seconds(12))
                }
                #expect(slowest < .seconds(5))
                let progress = try await fixture.progress()
                #expect(progress["delivered"] == good)
                let answered = try #require(seen.withLock { $0.lastAnswer })
                #expect(begun.duration(to: answered) < Duration.seconds(20) * stopwatch.slowdown)
                #expect(progress["unknown"] == poisoned.count)
                #expect(progress["failed"] == 0)
            }
            let counts = seen.withLock { $0.pushes }
            #expect(poisoned.allSatisfy { counts[$0] == 5 })
            #expect(!fixture.events.contains("currently answers"), "no outage")
            // Resets that come when everything else is answered look like those of a server that resets everything.
            if course.resetDelay == .zero { #expect(!fixture.events.contains("out of reach")) }
        }
    }

    /// The last answers are resets, so that they look like an outage.
    @Test func `sends an urgent push at once in an outage that only pushes without an answer prolong`() async throws {
        try await EngineFixture.run { actor, fixture in
            let queue = try await fixture.makeQueue(devices: 20)
            let (resets, urgent) = (Locked(0), Locked(0))
            let server = try MockAPNs(on: actor.loop) { request in
                if request.fields[":path"]?.hasSuffix(Self.urgentToken) == true {
                    urgent.withLock { $0 += 1 }
                    return request.answer()
                }
                resets.withLock { $0 += 1 }
                request.connection.reset(request.streamID, .internalError)
            }
            defer { server.close() }
            let endpoint = try server.endpoint
            try await fixture.withEngine {
                $0.endpoint = endpoint
            } _: { _ in
                try await fixture.startCampaign(queue)
                try await eventually("an outage") { fixture.events.contains("currently answers") }
                // The waits have grown to 8 s by then.
                let seen = resets.withLock { $0 }
                try await eventually("four tries", within: .seconds(60)) { resets.withLock { $0 } >= seen + 4 }
                let sent = Stopwatch()
                _ = try await fixture.number(
                    """
                    select pushq.send('\(queue)', '{"aps":{"alert":"x"}}', array['\(Self.urgentToken)'], urgent => true)
                    """)
                try await eventually("the urgent push", within: .seconds(60)) { urgent.withLock { $0 } > 0 }
                #expect(sent.quietTime < .seconds(3))
            }
        }
    }
}
