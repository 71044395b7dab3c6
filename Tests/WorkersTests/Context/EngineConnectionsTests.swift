import Foundation
import PostgresStore
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `The connections of an engine` {
    /// Counts the reports that a connection is back.
    private final class Listener: EngineConnectionsDelegate {
        var count = 0

        func storeIsBack() { count += 1 }
    }

    /// The part that losses leases must know before its first statement that PostgreSQL was away. The leases may have
    /// expired meanwhile, because their holders could not renew them.
    @Test func `are said to be back one by one, each before anybody uses it`() async throws {
        try await withDatabase { actor, database in
            let leasesMayCome = Locked(true)
            let isAway = Locked(false)
            let leases = Locked<Set<Int>>([])
            let proxy = try await DatabaseProxy { message in
                // The client's first message contains the program's name.
                if message.type == nil, String(decoding: message.bytes, as: UTF8.self).contains("(leases)") {
                    leases.withLock { _ = $0.insert(message.connection) }
                }
                if isAway.withLock(\.self) { return .cut }
                let isOfLeases = leases.withLock { $0.contains(message.connection) }
                return isOfLeases && !leasesMayCome.withLock(\.self) ? .cut : .pass
            }
            defer { proxy.close() }
            let events = EventLog()
            let stores = EngineConnections(
                to: try proxy.address(of: database), on: actor.loop, report: { events.append($0) })
            defer { stores.close() }
            let listener = Listener()
            stores.delegate = listener
            let nothing = Statement("nothing", "select 1 as one")
            for store in [stores.claims, stores.leases] {
                _ = try await store.connection().execute(nothing)
            }

            isAway.withLock { $0 = true }
            leasesMayCome.withLock { $0 = false }
            for store in [stores.claims, stores.leases] {
                await #expect(throws: PostgresError.self) { try await store.connection().execute(nothing) }
            }
            #expect(listener.count == 0)
            isAway.withLock { $0 = false }
            try await eventually("the connection for claims to be back", within: .seconds(60)) {
                (try? await stores.claims.connection()) != nil
            }
            #expect(listener.count == 1)
            #expect(!stores.isConnected && !events.contains("PostgreSQL is back"), "one is still away")
            let substitute = try await stores.leases.connection()
            #expect(try await substitute === stores.claims.connection(), "what must be recorded can be")

            leasesMayCome.withLock { $0 = true }
            try await eventually("the other one to be back", within: .seconds(60)) {
                stores.isConnected
            }
            #expect(listener.count == 2)
            #expect(events.contains("PostgreSQL is back"))
        }
    }

    @Test func `are given up at the end of a drain, whatever was to be written over them`() async throws {
        try await withDatabase { actor, database in
            let stores = EngineConnections(to: database.address, on: actor.loop) { _ in }
            let all = [stores.claims, stores.leases, stores.fanOut, stores.upkeep]
            for store in all { _ = try await store.connection() }
            // From here on, PostgreSQL is away for good.
            stores.close()
            var isOver = 0
            for store in all {
                actor.loop.startTask {
                    await store.persist { _ in }
                    isOver += 1
                }
            }
            stores.giveUp(after: .now)
            try await eventually("all to be given up", within: .seconds(20)) { isOver == all.count }
        }
    }

    /// At the login's limit, another worker may have the sessions that this one lacks.
    @Test func `are said to be all there after some could not be opened`() async throws {
        try await withDatabase { actor, database in
            let missing = Locked(["(fan-out)", "(upkeep)"])
            let refusals = Locked<[String: Int]>([:])
            let proxy = try await DatabaseProxy { message in
                guard message.type == nil else { return .pass }
                let text = String(decoding: message.bytes, as: UTF8.self)
                guard let name = missing.withLock(\.self).first(where: { text.contains($0) }) else { return .pass }
                refusals.withLock { $0[name, default: 0] += 1 }
                return .cut
            }
            defer { proxy.close() }
            let events = EventLog()
            let stores = EngineConnections(
                to: try proxy.address(of: database), on: actor.loop, report: { events.append($0) })
            defer { stores.close() }
            for store in [stores.claims, stores.leases] { _ = try await store.connection() }
            for (store, name) in [(stores.fanOut, "(fan-out)"), (stores.upkeep, "(upkeep)")] {
                // When an attempt is refused, the one before has failed.
                try await eventually("two attempts to connect \(name)", within: .seconds(60)) {
                    _ = try? await store.connection(within: .milliseconds(300))
                    return refusals.withLock { $0[name, default: 0] } >= 2
                }
            }
            let said = "PostgreSQL has no session for fan-out or upkeep, trying again"
            #expect(events.all.count == 1 && events.contains(said), "\(events.all)")

            missing.withLock { $0 = ["(upkeep)"] }
            _ = try await stores.fanOut.connection(within: .seconds(60))
            #expect(events.all.count == 1, "the other one is still missing")
            missing.withLock { $0 = [] }
            _ = try await stores.upkeep.connection(within: .seconds(60))
            #expect(events.all.last == "PostgreSQL has sessions for fan-out and upkeep again")
            #expect(events.all.count == 2)
        }
    }

    /// A campaign asks for the session for fan-out, and nobody does once the campaign is cancelled.
    @Test func `are said to be all there, though nobody asks any more for the one that could not be opened`()
        async throws
    {
        try await withDatabase { actor, database in
            let isMissing = Locked(true)
            let refusals = Locked(0)
            let proxy = try await DatabaseProxy { message in
                guard message.type == nil, isMissing.withLock(\.self),
                    String(decoding: message.bytes, as: UTF8.self).contains("(fan-out)")
                else { return .pass }
                refusals.withLock { $0 += 1 }
                return .cut
            }
            defer { proxy.close() }
            let events = EventLog()
            let stores = EngineConnections(
                to: try proxy.address(of: database), on: actor.loop, report: { events.append($0) })
            defer { stores.close() }
            for store in [stores.claims, stores.leases] { _ = try await store.connection() }
            await #expect(throws: PostgresError.self) {
                _ = try await stores.fanOut.connection(within: .milliseconds(300))
            }
            let count = refusals.withLock(\.self)
            // One more attempt may have been under way for the caller. An attempt may be refused with and without TLS.
            try await eventually("further attempts", within: .seconds(60)) { refusals.withLock(\.self) >= count + 5 }
            #expect(stores.lacksConnection)
            let said = "PostgreSQL has no session for fan-out or upkeep, trying again"
            #expect(events.all.count == 1 && events.contains(said), "\(events.all)")

            isMissing.withLock { $0 = false }
            try await eventually("the session", within: .seconds(60)) { !stores.lacksConnection }
            #expect(events.all.last == "PostgreSQL has sessions for fan-out and upkeep again")
            #expect(events.all.count == 2, "\(events.all)")
        }
    }
}
