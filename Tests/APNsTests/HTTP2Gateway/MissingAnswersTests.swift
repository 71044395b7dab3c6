import Cryptography
import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(10))) struct `When answers do not come` {
    @Test func `one slow stream is given up and the connection kept`() async throws {
        var settings = GatewaySettings.brisk
        settings.responseTime = .milliseconds(1500)
        settings.maximumUnanswered = 2
        let (results, connectionCount) = try await Stage(
            settings: settings, respond: { if $0.streamID != 5 { $0.answer() } }
        ).run { actor, scene in
            scene.sender.send(count: 5)
            var next: UInt64 = 5
            while scene.sender.results[2] == nil {
                scene.sender.send(count: 1, from: next)
                next += 1
                await actor.loop.pause(.milliseconds(2))
            }
            return (scene.sender.tally, scene.server.connections.count)
        }
        #expect(results["unanswered"] == 1)
        #expect(connectionCount == 1)
    }

    @Test func `several in a row replace the connection`() async throws {
        var settings = GatewaySettings.brisk
        settings.responseTime = .milliseconds(1500)
        let tally = try await Stage(
            settings: settings, respond: { if $0.connection !== $0.firstConnection { $0.answer() } }
        ).run { _, scene in
            scene.sender.send(count: 10)
            await scene.sender.untilAnswered(10)
            scene.sender.send(count: 10, from: 10)
            await scene.sender.untilAnswered(20)
            return scene.sender.tally
        }
        #expect(tally == ["unanswered": 10, "accepted": 10])
    }

    @Test func `a server that has gone silent is found by PING`() async throws {
        var settings = GatewaySettings.brisk
        settings.pingAfterSilence = .milliseconds(20)
        settings.pingTime = .milliseconds(40)
        // Otherwise the requests themselves would be given up after a while.
        settings.responseTime = .seconds(600)
        let (tally, reasons) = try await Stage(
            settings: settings, respond: { $0.connection.stream.pauseReading() }
        ).run { _, scene in
            scene.sender.send(count: 7)
            await scene.sender.untilAnswered(7)
            return (scene.sender.tally, scene.sender.lostConnections.map(\.reason))
        }
        #expect(tally == ["unanswered": 7])
        #expect(reasons.count == 1)
        #expect(reasons.allSatisfy { $0.contains("did not answer a PING") }, "\(reasons)")
    }

    @Test(arguments: [
        ([UInt8](), "sent no HTTP/2 SETTINGS"), ([0, 0, 0, 4, 0, 0, 0, 0, 0], "did not acknowledge SETTINGS"),
    ])
    func `a server that says nothing, or no more than its SETTINGS, is left`(words: [UInt8], expected: String)
        async throws
    {
        var settings = GatewaySettings.brisk
        settings.settingsTime = .seconds(1)
        let (loop, brisk) = (EventLoop(name: "test"), settings)
        defer { loop.shutDown() }
        let error = try await loop.run { actor in
            let authority = try MockAPNs.authority.get()
            let context = try TLSContext.server(identity: authority.issueServer(names: ["localhost"]))
            let mute = try TLSListener(context: context, loop: loop) { _ = $0.write(words.span) }
            defer { mute.close() }
            let gateway = try HTTP2Gateway(
                endpoint: Endpoint(
                    host: "localhost", port: mute.port, authorities: try TrustStore(adding: [authority.certificate])),
                credential: .token(ProviderToken(text: "a.b.c", issuedAt: 0)), settings: brisk, loop: loop)
            let sender = Sender(gateway)
            defer { gateway.close() }
            gateway.requestCapacity()
            await sender.until { !sender.downtimes.isEmpty }
            return sender.downtimes[0].error.replacing(":\(mute.port)", with: "")
        }
        #expect(error == "localhost " + expected)
    }
}

/// RFC 9113 §6.5.3 lets the client end such a connection. The pushes that it carries are not to blame.
@Suite(.timeLimit(.minutes(10))) struct `A server that answers but does not acknowledge SETTINGS` {
    @Test func `is left once its answers are there`() async throws {
        let held = Held()
        var settings = GatewaySettings.brisk
        settings.settingsTime = .milliseconds(500)
        settings.drainTime = .seconds(30)
        let stage = Stage(acknowledgesSettings: false, settings: settings) { request in
            if request.streamID > 1 { held.requests.append(request) } else { request.answer() }
        }
        let (tally, losses) = try await stage.run { actor, scene in
            scene.sender.send(count: 20)
            await held.until(count: 19)
            // The connection takes no more.
            while scene.gateway.freeSlots > 0 { await actor.loop.pause(.milliseconds(5)) }
            for request in held.requests { request.answer() }
            await scene.sender.untilAnswered(20)
            return (scene.sender.tally, scene.sender.lostConnections.count)
        }
        #expect(tally == ["accepted": 20])
        #expect(losses == 0)
    }
}
