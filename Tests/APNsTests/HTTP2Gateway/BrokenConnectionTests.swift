import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(10))) struct `When a connection breaks` {
    @Test func `what was sent whole is unanswered, and another takes its place`() async throws {
        let tally = try await Stage(respond: { request in
            if request.connection.http.openStreamCount == 50 { request.connection.cut() }
        }).run { _, scene in
            scene.sender.send(count: 50)
            await scene.sender.untilAnswered(50)
            return scene.sender.tally
        }
        #expect(tally == ["unanswered": 50])
    }

    @Test func `a body that had not left in full is untouched`() async throws {
        // The connection's window is 65,535 bytes: sixteen bodies of 4,096 do not fit, and the server never gives it
        // back.
        let (tally, arrived) = try await Stage(respond: { request in
            if request.connection.http.openStreamCount >= 15, request.streamID == 29 { request.connection.cut() }
        }).run { _, scene in
            scene.sender.resendsUntouched = false
            scene.sender.send(Sender.push(bytes: 4096), count: 40)
            await scene.sender.untilAnswered(40)
            return (scene.sender.tally, scene.server.requests.count)
        }
        #expect(tally["unanswered"].map { $0 >= arrived } == true)
        #expect(tally["untouched"].map { $0 > 0 } == true)
        #expect((tally["unanswered"] ?? 0) + (tally["untouched"] ?? 0) == 40)
    }

    @Test func `a stream that was refused is untouched`() async throws {
        let (tally, repeated, connections) = try await Stage(respond: { request in
            guard request.streamID == 3 else { return request.answer() }
            request.connection.reset(3, .refusedStream)
            request.connection.resetAgain(3, .streamClosed)
        }).run { _, scene in
            scene.sender.send(count: 3)
            await scene.sender.untilAnswered(3)
            return (scene.sender.tally, scene.sender.repeatedCount, scene.server.connections.count)
        }
        #expect(tally == ["accepted": 3])
        #expect(repeated == 1)
        #expect(connections == 1)
    }

    @Test func `a server that cannot be reached is tried again ever more seldom`() async throws {
        var settings = GatewaySettings.brisk
        settings.backoff = Backoff(base: .milliseconds(1), cap: .milliseconds(30))
        let downtimes = try await Stage(settings: settings).run { _, scene in
            scene.server.close()
            scene.gateway.requestCapacity()
            await scene.sender.until { scene.sender.downtimes.count == 12 }
            return scene.sender.downtimes
        }
        #expect(Set(downtimes.map(\.since)).count == 1)
        #expect(downtimes[0].error.contains("Connection refused"))
        // From the tenth failure on, attempts have failed for so long that the cap of 30 ms is the minimum delay.
        for (earlier, later) in zip(downtimes.dropFirst(8), downtimes.dropFirst(9)) {
            #expect(earlier.nextAttempt.duration(to: later.nextAttempt) >= .milliseconds(30))
        }
    }

    @Test func `connections that do not last are failures as well`() async throws {
        var settings = GatewaySettings.brisk
        settings.stableTime = .seconds(10)
        let count = try await Stage(settings: settings, respond: { $0.connection.cut() }).run { _, scene in
            scene.sender.send(count: 1)
            await scene.sender.until { !scene.sender.downtimes.isEmpty }
            return scene.sender.downtimes.count
        }
        #expect(count == 1)
    }
}
