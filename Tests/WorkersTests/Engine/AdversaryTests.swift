import APNs
import Foundation
import HTTP2
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

@testable import Workers

/// A whole engine with a server that does anything that HTTP/2 and APNs allow, at random. A judge knows only what the
/// server received and what it answered.
@Suite(.timeLimit(.minutes(10))) struct `Whatever APNs does to a worker` {
    private static let devices = 400

    @Test(arguments: UInt64(1)...3) func `each push ends once, as the server said, and no connection storm arises`(
        seed: UInt64
    ) async throws {
        try await EngineFixture.run { actor, fixture in
            // Two queues share one key.
            let queues = [
                try await fixture.makeQueue(devices: Self.devices),
                try await fixture.makeQueue(tenant: "other", app: "com.other", devices: Self.devices),
            ]
            let oracle = Oracle(seed: seed)
            let server = try MockAPNs(on: actor.loop, maximumStreams: 20, respond: oracle.respond)
            defer { server.close() }
            oracle.flap(server, on: actor.loop)
            let endpoint = try server.endpoint
            let begun = ContinuousClock.now
            try await fixture.withEngine { settings in
                settings.endpoint = endpoint
                settings.connections.backoff = Backoff(base: .milliseconds(20), cap: .milliseconds(200))
                settings.connections.stableTime = .milliseconds(500)
                settings.connections.responseTime = .seconds(2)
                settings.connections.drainTime = .seconds(2)
            } _: { _ in
                for queue in queues { try await fixture.startCampaign(queue, key: queue.tenant) }
                try await fixture.connection.runScript(
                    """
                    select pushq.send('\(queues[0])', '{"aps":{"alert":"once"}}',
                      tokens => (select array_agg(encode(token, 'hex')) from pushq.device
                                 where queue_id = pushq.queue_id('\(queues[0])')), at_most_once => true)
                    """)
                // Meanwhile one queue's key is replaced by the same key, as an operator might do.
                try await eventually("a part of it", within: .seconds(60)) { oracle.taken.count > 100 }
                let id = try #require(try await fixture.connection.sealedCredential("com.other", of: "other")).id
                _ = try await fixture.connection.replaceCredential(id, by: try fixture.signingKey(id: id))
                try await eventually("the first part", within: .seconds(120)) { oracle.taken.count > 300 }
                oracle.calmDown()
                try await fixture.waitForCampaigns(within: .seconds(120))
                try await eventually("the end of the send", within: .seconds(60)) {
                    try await fixture.number(
                        "select (select count(*) from pushq.job) + (select count(*) from pushq.lease)") == 0
                }
            }
            try await judge(fixture, oracle)
            let seconds = begun.duration(to: .now) / .seconds(1)
            // The two gateways have at most four connections, each of which is replaced when the server breaks it. Five
            // new ones a second would be a storm.
            #expect(Double(server.connections.count) < 40 + seconds * 5)
        }
    }

    /// Each recipient, with its final outcome.
    private static let ends = Statement(
        "ends",
        #"""
        select pushq.apns_id(b.root_id, d.id)::text as apns_id, get_byte(r.outcomes, d.ordinal::int - 1) as outcome
        from pushq.result r
        join pushq.body b on b.queue_id = r.queue_id and b.job_id = r.job_id
        cross join unnest(b.device_ids) with ordinality d(id, ordinal)
        where get_byte(r.outcomes, d.ordinal::int - 1) < 192
        """#)

    /// Compares the stored outcome of each push with what the server knows of it.
    private func judge(_ fixture: EngineFixture, _ oracle: Oracle) async throws {
        let ends = try await fixture.connection.execute(Self.ends).map { row in
            (id: row.text("apns_id"), kind: Outcome(rawValue: UInt8(row.int4("outcome"))).kind)
        }
        #expect(ends.count == 3 * Self.devices)
        #expect(Set(ends.map(\.id)).count == ends.count)
        let (taken, rejected) = (oracle.taken, oracle.rejected)
        let wrong = ends.filter { end in
            switch end.kind {
            case .delivered: !taken.contains(end.id)
            case .rejected: !rejected.contains(end.id)
            // Its answers were lost, if there were any.
            case .unknown: false
            // Nothing was refused ten times.
            default: true
            }
        }
        #expect(wrong.isEmpty)
        #expect(oracle.onceSeenTwice.isEmpty, "at most once")
    }
}

/// Decides at random what the server does, and records it. Used on the loop of one test, and read by that test.
private final class Oracle: @unchecked Sendable {
    private let lock = Locked<State>(State())

    private struct State {
        var generator: SeededGenerator?
        var isCalm = false
        var taken: Set<String> = []
        var rejected: Set<String> = []
        var once: Set<String> = []
        var onceTwice: [String] = []
        /// Pushes that were certainly not acted on. Such a push may come again, even if it is sent at most once.
        var untouched: Set<String> = []
    }

    init(seed: UInt64) { lock.withLock { $0.generator = SeededGenerator(seed: seed) } }

    var taken: Set<String> { lock.withLock { $0.taken } }
    var rejected: Set<String> { lock.withLock { $0.rejected } }
    var onceSeenTwice: [String] { lock.withLock { $0.onceTwice } }
    func calmDown() { lock.withLock { $0.isCalm = true } }

    private func number(_ range: ClosedRange<Int>) -> Int {
        lock.withLock { .random(in: range, using: &$0.generator!) }
    }
    private var isCalm: Bool { lock.withLock { $0.isCalm } }

    /// Raises and lowers the stream limit of all connections.
    func flap(_ server: MockAPNs, on loop: EventLoop) {
        for connection in server.connections where !connection.isClosed && !isCalm {
            connection.allow([0, 1, 20, 1000][number(0...3)])
        }
        if isCalm { for connection in server.connections where !connection.isClosed { connection.allow(1000) } }
        loop.schedule(after: .milliseconds(number(50...400))) { [weak server] in
            if let server { self.flap(server, on: loop) }
        }
    }

    func respond(to request: MockAPNs.Request) {
        let id = request.fields["apns-id"] ?? ""
        note(id, isOnce: String(decoding: request.body, as: UTF8.self).contains("once"))
        let connection = request.connection
        guard !isCalm else { return accept(request, id) }
        switch number(0...199) {
        case 0..<6: reject(request, id)
        case 6..<12: transient(request, 503, "ServiceUnavailable")
        case 12..<16: transient(request, 429, "TooManyRequests")
        case 16..<18: transient(request, 500, "InternalServerError")
        case 18: transient(request, 503, "Shutdown")
        case 19: transient(request, 400, "IdleTimeout")
        case 20: transient(request, 403, "ExpiredProviderToken")
        case 21..<27: refuseStream(request, id)
        case 27:
            // Sends GOAWAY, and accepts what has arrived.
            connection.goAway(last: 0x7FFF_FFFF)
            accept(request, id)
        case 28:
            // Sends GOAWAY at once: nothing from this request on was acted on.
            connection.goAway(last: request.streamID >= 2 ? request.streamID - 2 : 0)
            lock.withLock { _ = $0.untouched.insert(id) }
        case 29:
            lock.withLock { _ = $0.taken.insert(id) }  // Accepted, but the worker gets no answer.
            connection.cut()
        case 30: connection.cut()
        case 31: break  // No answer.
        case 32..<50:
            connection.stream.loop.schedule(after: .milliseconds(number(1...200))) { self.accept(request, id) }
        default: accept(request, id)
        }
    }

    private func note(_ id: String, isOnce: Bool) {
        guard isOnce else { return }
        lock.withLock { state in
            if state.once.contains(id), state.untouched.remove(id) == nil { state.onceTwice.append(id) }
            state.once.insert(id)
        }
    }

    private func accept(_ request: MockAPNs.Request, _ id: String) {
        guard !request.connection.isClosed else { return }
        lock.withLock { _ = $0.taken.insert(id) }
        request.answer()
    }

    private func reject(_ request: MockAPNs.Request, _ id: String) {
        lock.withLock { _ = $0.rejected.insert(id) }
        request.answer(400, body: #"{"reason":"MissingDeviceToken"}"#)
    }

    private func transient(_ request: MockAPNs.Request, _ status: Int, _ reason: String) {
        if let id = request.fields["apns-id"] { lock.withLock { _ = $0.untouched.insert(id) } }
        request.answer(status, body: #"{"reason":"\#(reason)"}"#)
    }

    private func refuseStream(_ request: MockAPNs.Request, _ id: String) {
        lock.withLock { _ = $0.untouched.insert(id) }
        request.connection.reset(request.streamID, .refusedStream)
    }
}
