import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

/// Answers that are about the connection, from a server that takes other pushes, or seems to.
@Suite(.timeLimit(.minutes(10))) struct `A connection that the answer to one push ends` {
    private static func shutDown(_ request: MockAPNs.Request) {
        request.answer(503, body: #"{"reason":"Shutdown"}"#)
    }

    /// Connections that last for less than ten seconds are short-lived.
    private static var settings: GatewaySettings {
        var settings = GatewaySettings.brisk
        settings.stableTime = .seconds(10)
        settings.growthInterval = .milliseconds(20)
        settings.maximumConnections = 1
        return settings
    }

    @Test func `is followed by others ever more slowly if the server serves one push on each`() async throws {
        let (time, downtimes) = try await Stage(
            settings: Self.settings, respond: { $0.streamID == 1 ? $0.answer() : Self.shutDown($0) }
        ).run { actor, scene in
            let begun = actor.loop.now
            var count = 0
            while scene.server.connections.count < 6 {
                scene.sender.send(count: 1, from: UInt64(count))
                count += 1
                await scene.sender.untilAnswered(count)
            }
            return (begun.duration(to: actor.loop.now), scene.sender.downtimes.count)
        }
        // 40, 80, 160, 320 and 640 ms.
        #expect(time >= .milliseconds(1240), "\(time)")
        #expect(downtimes == 0)
    }

    @Test func `is a failed attempt if the server serves nothing`() async throws {
        let downtime = try await Stage(settings: Self.settings, respond: Self.shutDown).run { _, scene in
            scene.sender.send(count: 1)
            await scene.sender.until { scene.sender.downtimes.count == 1 }
            scene.sender.send(count: 1, from: 1)
            await scene.sender.until { scene.sender.downtimes.count == 2 }
            return scene.sender.downtimes[1]
        }
        #expect(downtime.error.contains("Shutdown"))
    }

    @Test func `does not end because one push is refused again and again`() async throws {
        let (refusals, poison) = (Locked(0), APNsID(root: 7, key: 5).description)
        let (tally, connections) = try await Stage(
            settings: Self.settings,
            respond: { request in
                let isRefused =
                    request.fields["apns-id"] == poison
                    && refusals.withLock {
                        $0 += 1
                        return $0 <= 10
                    }
                if isRefused { request.connection.reset(request.streamID, .refusedStream) } else { request.answer() }
            }
        ).run { _, scene in
            scene.sender.send(count: 21)
            await scene.sender.untilAnswered(21)
            return (scene.sender.tally, scene.server.connections.count)
        }
        #expect(tally == ["accepted": 21])
        #expect(connections == 1)
    }
}
