import HTTP2
import TestSupport
import Testing
import Transport

@testable import APNs

/// Servers that end requests with RST_STREAM. The result of these is unknown, and a push may be lost only a few times.
@Suite(.timeLimit(.minutes(10))) struct `A server that resets requests` {
    /// A push, and the connection over which it arrived.
    private struct Arrival: Hashable {
        let connection: Int
        let id: String?
    }

    @Test func `all of them, gets each push once over each connection, and that is said`() async throws {
        let (tally, arrivals, lost) = try await Stage(respond: { request in
            if request.connection.number < 6 {
                request.connection.reset(request.streamID, .internalError)
            } else {
                request.answer()
            }
        }).run { _, scene in
            scene.sender.maximumLosses = 7
            scene.sender.send(count: 200)
            await scene.sender.untilAnswered(200)
            let arrivals = scene.server.requests.map {
                Arrival(connection: $0.connection.number, id: $0.fields["apns-id"])
            }
            return (scene.sender.tally, arrivals, scene.sender.lostConnections)
        }
        #expect(tally == ["accepted": 200])
        #expect(Set(arrivals).count == arrivals.count)
        #expect(lost.count == 6)
        #expect(lost.map(\.uncertain).reduce(0, +) == arrivals.count { $0.connection < 6 })
        #expect(lost.first?.reason.contains("RST_STREAM, INTERNAL_ERROR") == true)
    }

    @Test func `over one connection of four loses no push for good`() async throws {
        var settings = GatewaySettings.brisk
        // The next connection is often to a front end of the same kind.
        settings.stableTime = .seconds(10)
        let (tally, sent) = try await Stage(
            maximumStreams: 20, settings: settings,
            respond: { request in
                // The resets begin when all four connections are open.
                let isSick = request.connection.number % 4 == 0 && request.connectionCount >= 4
                if isSick { return request.connection.reset(request.streamID, .internalError) }
                request.connection.stream.loop.schedule(after: .milliseconds(20)) {
                    if !request.connection.isClosed { request.answer() }
                }
            }
        ).run { _, scene in
            scene.sender.maximumLosses = LossIsolation.maximumLosses
            var sent = 2000
            scene.sender.send(count: sent)
            await scene.sender.untilAnswered(sent)
            // On a busy machine, this may end before four connections are open and the one that resets is replaced.
            while scene.server.connections.count < 5 {
                scene.sender.send(count: 500, from: UInt64(sent))
                sent += 500
                await scene.sender.untilAnswered(sent)
            }
            return (scene.sender.tally, sent)
        }
        #expect(tally == ["accepted": sent])
    }

    @Test func `now and then keeps its connection`() async throws {
        let (tally, lost, isKept) = try await Stage(respond: { request in
            // Other requests are in flight, and no request is reset twice.
            if request.connection.number == 0, request.streamID % 40 == 11, request.streamID < 1900 {
                request.connection.reset(request.streamID, .internalError)
            } else {
                request.answer()
            }
        }).run { _, scene in
            scene.sender.maximumLosses = LossIsolation.maximumLosses
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            let connection = scene.gateway.pool.open[0]
            scene.sender.send(count: 999, from: 1)
            await scene.sender.untilAnswered(1000)
            // If what was read ends with a reset, another connection may be opened until this one answers again.
            return (
                scene.sender.tally, scene.sender.lostConnections.count,
                scene.gateway.pool.open.contains { $0 === connection }
            )
        }
        #expect(tally == ["accepted": 1000])
        #expect(lost == 0)
        #expect(isKept)
    }

    /// Then it is this side that resets the stream.
    @Test func `is not blamed for resets where its answers break a rule`() async throws {
        let reasons = try await Stage(respond: { $0.connection.answerHead($0.streamID, -12) }).run { _, scene in
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            return scene.sender.lostConnections.map(\.reason)
        }
        #expect(reasons.count == 1)
        #expect(reasons.allSatisfy { $0.contains("answered requests against the rules of HTTP/2") }, "\(reasons)")
        #expect(reasons.allSatisfy { $0.contains(Violation.malformedMessage.rawValue) }, "\(reasons)")
        #expect(reasons.allSatisfy { !$0.contains("RST_STREAM") }, "\(reasons)")
    }
}
