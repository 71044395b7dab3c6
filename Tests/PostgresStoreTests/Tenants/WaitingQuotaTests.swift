import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The quota of waiting recipients: how many may be left to be sent to.
extension `A tenant's quota` {
    @Test func `of waiting recipients counts jobs, held ones too, and lists`() async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            try await set(store) { $0.waiting = .limit(7) }
            let send = "pushq.send(QUEUE, \(Self.payload), tokens => array['\(Self.token(10))', '\(Self.token(11))'])"
            let register = "pushq.register_channel(QUEUE, 'dGhlaXJz', 0)"
            #expect(try await refusal(store, register) == nil)
            #expect(try await refusal(store, send) == nil)
            #expect(
                try await refusal(
                    store,
                    "pushq.add_to_list(QUEUE, pushq.new_list(QUEUE), array['\(Self.token(10))', '\(Self.token(11))'])")
                    == nil)
            #expect(try await refusal(store, send) == nil)
            _ = try await queue.claim(1, lane: .normal)
            try await store.countUsage()
            #expect(try await store.usage(of: "acme")?.waiting == .init(used: 6, quota: 7))
            #expect(
                try await refusal(store, send)
                    == "PQ507 tenant “acme” may have at most 7 waiting recipients: it has 6, and this call would add 2; wait until some of them "
                    + "have been sent to, or cancel what is not needed; the recipients of a campaign whose list was not loaded "
                    + "to its end count for a day, or until pushq.abandon_list; an operator can allow more with: "
                    + "pushq-admin tenant set "
                    + "acme --max-waiting")
            #expect(
                try await refusal(store, "pushq.send(QUEUE, \(Self.payload), tokens => array['\(Self.token(10))'])")
                    == nil)
            try await store.countUsage()
            for call in [
                #"pushq.broadcast(QUEUE, 'dGhlaXJz', '{"aps":{"timestamp":1,"event":"update","content-state":{}}}', expiration => 0)"#,
                "pushq.add_to_list(QUEUE, (select max(id) from pushq.list), array['\(Self.token(12))'])",
            ] {
                #expect(
                    try await refusal(store, call)?.hasPrefix("PQ507 tenant “acme” may have at most 7 waiting") == true,
                    "\(call)")
            }
            // No campaign to all devices is refused for this quota when it is started.
            #expect(try await refusal(store, "pushq.start_campaign(QUEUE, 'k', \(Self.payload))") == nil)
        }
    }

    @Test func `of waiting recipients counts the users of lists, also those who have no device`() async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            try await set(store) { $0.waiting = .limit(10) }
            #expect(try await refusal(store, "pushq.new_list(QUEUE)") == nil)
            func add(_ users: ClosedRange<Int>) -> String {
                let list = users.map { "'user \($0)'" }.joined(separator: ",")
                return "pushq.add_users_to_list(QUEUE, (select max(id) from pushq.list), array[\(list)])"
            }
            #expect(try await refusal(store, add(1...6)) == nil)
            try await store.countUsage()
            #expect(try await store.usage(of: "acme")?.waiting == .init(used: 6, quota: 10))
            let refused = try await refusal(store, add(1...11))
            #expect(refused?.hasPrefix("PQ507 tenant “acme” may have at most 10 waiting recipients: it has 6") == true)
            // Known devices are not counted again.
            #expect(try await refusal(store, add(3...10)) == nil)
        }
    }

    /// How many recipients such a campaign has is not known when it is started, so no start is refused. Sends are, once
    /// its jobs are made.
    @Test func `of waiting recipients counts those of a campaign to all devices that are in jobs`() async throws {
        try await withQueue { _, queue, _ in
            let store = queue.connection
            try await set(store) { $0.waiting = .limit(4) }
            let campaign = try await queue.startCampaign()
            try await store.countUsage()
            #expect(try await store.usage(of: "acme")?.waiting == .init(used: 0, quota: 4))
            try await queue.fanOut(campaign)
            try await store.countUsage()
            #expect(try await store.usage(of: "acme")?.waiting == .init(used: 5, quota: 4))
            let send = "pushq.send(QUEUE, \(Self.payload), tokens => array['\(Self.token(10))'])"
            #expect(
                try await refusal(store, send)?.hasPrefix(
                    "PQ507 tenant “acme” may have at most 4 waiting recipients: it has 5, and this call would add 1; ")
                    == true)
            #expect(try await refusal(store, "pushq.start_campaign(QUEUE, 'next', \(Self.payload))") == nil)
        }
    }
}
