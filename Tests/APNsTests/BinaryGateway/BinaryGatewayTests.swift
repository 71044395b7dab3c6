import Cryptography
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs
@testable import APNsSimulator

@Suite(.timeLimit(.minutes(10))) struct `An error of the binary interface` {
    @Test func `rejects its push, and what came behind it is sent again, once`() async throws {
        let stage = BinaryStage { arrival in
            arrival.connection == 0 && arrival.ticket == 12 ? .error(status: 8, identifier: 6) : .silence
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 13)
            await scene.sender.untilAnswered(13)
        }
        #expect(scene.results[5] == "400 BadDeviceToken")
        #expect(scene.tally == ["accepted": 12, "400 BadDeviceToken": 1])
        #expect(scene.ticketsByConnection == [Array(0..<13), Array(6..<13)])
    }

    @Test(arguments: [
        (count: 5, bad: [0]), (count: 5, bad: [4]), (count: 10, bad: [3, 7]), (count: 3, bad: [0, 1, 2]),
        (count: 1000, bad: []),
    ])
    func `rejects the bad tokens, wherever they stand`(count: Int, bad: [UInt64]) async throws {
        let stage = BinaryStage { arrival in
            guard bad.contains(arrival.ticket), let identifier = arrival.notification.identifier else {
                return .silence
            }
            return .error(status: 8, identifier: identifier)
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: count)
            await scene.sender.untilAnswered(count)
        }
        #expect(scene.results.filter { $0.value != "accepted" }.keys.sorted() == bad)
        #expect(Set(scene.results.values).isSubset(of: ["accepted", "400 BadDeviceToken"]))
        #expect(scene.ticketsByConnection.count == bad.filter { $0 < count - 1 }.count + 1)
        // No push that the server accepted is sent again.
        #expect(scene.ticketsByConnection.flatMap { $0 }.sorted() == Array(0..<UInt64(count)))
    }

    @Test func `is read when the connection is reset behind it and writing fails`() async throws {
        let stage = BinaryStage { arrival in
            arrival.connection == 0 && arrival.ticket == 9 ? .errorAndReset(status: 8, identifier: 3) : .silence
        }
        let scene = try await stage.run { scene in
            // A write that fails: after the server has reset the connection, and before the gateway reads.
            scene.server.hasReset = { scene.sender.send(Sender.push(bytes: 2000), count: 90, from: 10) }
            scene.sender.send(count: 10)
            await scene.sender.untilAnswered(100)
        }
        #expect(scene.results[2] == "400 BadDeviceToken")
        #expect(scene.tally == ["accepted": 99, "400 BadDeviceToken": 1])
        #expect(scene.repeatedCount >= 7)
    }

    @Test func `that announces a shutdown names the last push that was taken`() async throws {
        let stage = BinaryStage { arrival in
            arrival.connection == 0 && arrival.ticket == 12 ? .error(status: 10, identifier: 6) : .silence
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 13)
            await scene.sender.untilAnswered(13)
        }
        #expect(scene.tally == ["accepted": 13])
        #expect(scene.ticketsByConnection == [Array(0..<13), Array(6..<13)])
    }

    @Test func `that announces a shutdown before any push was taken leaves none in doubt`() async throws {
        let stage = BinaryStage { arrival in
            arrival.connection == 0 && arrival.ticket == 4 ? .error(status: 10, identifier: 0) : .silence
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 5)
            await scene.sender.untilAnswered(5)
        }
        #expect(scene.tally == ["503 Shutdown": 1, "accepted": 4])
        #expect(scene.results[0] == "503 Shutdown")
    }

    @Test(
        arguments: [(status: 10, identifier: 0), (status: 10, identifier: 6), (status: 8, identifier: 2)]
            as [(status: UInt8, identifier: UInt32)])
    func `says nothing of any push where pushes have no identifiers`(status: UInt8, identifier: UInt32) async throws {
        let stage = BinaryStage(command: .simple) { arrival in
            arrival.connection == 0 && arrival.ticket == 7
                ? .error(status: status, identifier: identifier) : .silence
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 3)
            await scene.sender.untilAnswered(3)
            scene.sender.send(count: 5, from: 3)
            await scene.sender.untilAnswered(8)
            // The first three stay delivered, whatever number the server has filled in.
            #expect(scene.sender.deliveredTooSoon == 0)
        }
        #expect(scene.tally == ["accepted": 3, "unanswered": 5])
        #expect(scene.ticketsByConnection == [Array(0..<8)])
    }

    @Test func `finds its push when identifiers have started again at 0, and in its own connection`() async throws {
        let stage = BinaryStage(firstIdentifier: .max - 2) { arrival in
            // The identifiers are 2^32 - 3, 2^32 - 2, 2^32 - 1, 0, 1, …
            arrival.connection == 0 && arrival.ticket == 9 ? .error(status: 7, identifier: 1) : .silence
        }
        let scene = try await stage.run { scene in
            let other = try BinaryGateway(
                endpoint: scene.gateway.endpoint, identity: scene.identity, settings: .brisk,
                binary: scene.gateway.binary, loop: scene.loop, firstIdentifier: .max - 2)
            defer { other.close() }
            let neighbour = Sender(other)
            scene.sender.send(count: 10)
            await scene.sender.untilAnswered(10)
            // On another gateway's connection, the same identifiers mean other pushes.
            neighbour.send(count: 5, from: 100)
            await neighbour.untilAnswered(5)
            #expect(neighbour.tally == ["accepted": 5])
        }
        #expect(scene.results[4] == "413 PayloadTooLarge")
        #expect(scene.tally == ["accepted": 9, "413 PayloadTooLarge": 1])
    }

    @Test func `with an identifier that was never sent leaves everything unanswered`() async throws {
        let stage = BinaryStage { $0.ticket == 4 ? .error(status: 8, identifier: 77) : .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 5)
            await scene.sender.untilAnswered(5)
        }
        #expect(scene.tally == ["unanswered": 5])
    }

    @Test func `with an identifier that was never sent costs the push at fault alone, in the end`() async throws {
        let stage = BinaryStage(windowSize: 60, grace: .milliseconds(500)) { arrival in
            arrival.ticket == 37 ? .error(status: 8, identifier: 77_000) : .silence
        }
        let scene = try await stage.run { scene in
            scene.sender.maximumLosses = LossIsolation.maximumLosses
            scene.sender.send(count: 60)
            await scene.sender.untilAnswered(60)
            let words = scene.sender.lostConnections.map(\.reason)
            scene.note("named", words.count { $0.contains("an error for identifier 77000, which was never sent") })
            scene.note(
                "counted", words.last?.contains("\(LossIsolation.maximumLosses) such errors so far") == true ? 1 : 0)
            scene.note("alone", scene.sender.lostConnections.last?.uncertain ?? 0)
        }
        #expect(scene.tally == ["accepted": 59, "unanswered": 1])
        #expect(scene.results[37] == "unanswered")
        #expect(scene.notes == ["named": LossIsolation.maximumLosses, "counted": 1, "alone": 1])
    }

    @Test func `with an identifier that was never sent is a failure, and the next attempt has to wait`() async throws {
        var settings = GatewaySettings.brisk
        settings.stableTime = .seconds(10)
        let stage = BinaryStage(settings: settings) { _ in .error(status: 8, identifier: 77) }
        _ = try await stage.run { scene in
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            await scene.sender.until { !scene.sender.downtimes.isEmpty }
            #expect(scene.sender.downtimes[0].error.contains("status 8, BadDeviceToken"))
        }
    }

    @Test func `that comes after the grace changes nothing that was told, and what waits is sent again`() async throws {
        let stage = BinaryStage { arrival in
            arrival.connection == 0 && arrival.ticket == 12 ? .error(status: 8, identifier: 2) : .silence
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 10)
            await scene.sender.untilAnswered(10)
            scene.sender.send(count: 3, from: 10)
            await scene.sender.untilAnswered(13)
            // The push at fault, and the eight behind it that had counted as accepted after their grace.
            #expect(scene.sender.deliveredTooSoon == 9)
        }
        #expect(scene.tally == ["accepted": 13])
        #expect(scene.ticketsByConnection == [Array(0..<13), Array(10..<13)])
    }

    @Test func `that is cut off in the middle says nothing`() async throws {
        let stage = BinaryStage { $0.ticket == 4 ? .halfError : .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 5)
            await scene.sender.untilAnswered(5)
        }
        #expect(scene.tally == ["unanswered": 5])
    }

    @Test func `that comes slowly is awaited, and nothing counts as delivered meanwhile`() async throws {
        let grace = Duration.milliseconds(500)
        let stage = BinaryStage(grace: grace) { arrival in
            guard arrival.connection == 0, arrival.ticket == 4 else { return .silence }
            return .slowError(status: 8, identifier: 3, interval: grace / 2)
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 5)
            // This one comes when the error has begun, so the server throws it away.
            await scene.sender.until { scene.server.arrivals.count == 5 }
            scene.sender.send(count: 1, from: 5)
            await scene.sender.untilAnswered(6)
            #expect(scene.sender.deliveredTooSoon == 0)
        }
        #expect(scene.results[2] == "400 BadDeviceToken")
        #expect(scene.tally == ["accepted": 5, "400 BadDeviceToken": 1])
    }

    @Test func `that stops in the middle is a lost connection, after one more grace`() async throws {
        let stage = BinaryStage(grace: .milliseconds(300)) { $0.ticket == 4 ? .beginningOfError : .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 5)
            await scene.sender.untilAnswered(5)
            let words = scene.sender.lostConnections.map(\.reason)
            scene.note("told", words.count { $0.hasSuffix("stopped in the middle of an error") })
        }
        #expect(scene.tally == ["unanswered": 5])
        #expect(scene.notes == ["told": 1])
    }

    @Test func `that is followed by another is the one that counts`() async throws {
        let stage = BinaryStage { arrival in
            arrival.connection == 0 && arrival.ticket == 9 ? .errors(identifiers: [3, 7]) : .silence
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 10)
            await scene.sender.untilAnswered(10)
        }
        #expect(scene.results[2] == "400 BadDeviceToken")
        #expect(scene.tally == ["accepted": 9, "400 BadDeviceToken": 1])
        #expect(scene.ticketsByConnection == [Array(0..<10), Array(3..<10)])
    }

    @Test func `makes the windows smaller, so that little is written in vain where many tokens are bad`() async throws {
        let (count, bad) = (2000, 200)
        let stage = BinaryStage { arrival in
            guard arrival.ticket % 10 == 7, let identifier = arrival.notification.identifier else { return .silence }
            return .error(status: 8, identifier: identifier)
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: count)
            await scene.sender.untilAnswered(count)
        }
        #expect(scene.tally == ["accepted": count - bad, "400 BadDeviceToken": bad])
        // With a full window, each error would make half of all pushes be sent again: 200,000.
        #expect(scene.repeatedCount < 10 * count)
    }

    @Test func `that the server makes of some pushes keeps nobody waiting, as long as it takes others`() async throws {
        // Each error ends a connection. If that counted as a failed attempt, the pauses between connections would grow,
        // up to a minute.
        let (count, failing) = (30, 6)
        var settings = GatewaySettings.brisk
        settings.stableTime = .seconds(10)
        settings.backoff = Backoff(base: .seconds(2), cap: .seconds(60))
        let stage = BinaryStage(settings: settings) { arrival in
            guard arrival.ticket % 5 == 4, let identifier = arrival.notification.identifier else { return .silence }
            return .error(status: 1, identifier: identifier)
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: count)
            await scene.sender.untilAnswered(count)
            #expect(scene.sender.downtimes.isEmpty)
        }
        #expect(scene.tally == ["accepted": count - failing, "500 InternalServerError": failing])
    }

    @Test func `costs a connection, and those are opened one at a time`() async throws {
        let (count, interval) = (8, Duration.milliseconds(50))
        var stage = BinaryStage { arrival in
            arrival.notification.identifier.map { .error(status: 8, identifier: $0) } ?? .close
        }
        stage.openingInterval = interval
        let start = ContinuousClock.now
        let scene = try await stage.run { scene in
            scene.sender.send(count: count)
            await scene.sender.untilAnswered(count)
        }
        #expect(scene.ticketsByConnection.count == count)
        #expect(start.duration(to: .now) >= interval * (count - 1))
    }
}

@Suite(.timeLimit(.minutes(10))) struct `Silence of the binary interface` {
    @Test func `counts as delivery only after the grace, and is reported once`() async throws {
        let stage = BinaryStage(grace: .milliseconds(300)) { _ in .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 1)
            let start = ContinuousClock.now
            await scene.sender.untilAnswered(1)
            #expect(start.duration(to: .now) >= .milliseconds(300))
        }
        #expect(scene.tally == ["accepted": 1])
    }

    @Test func `is awaited by a bounded number of pushes, and the rest have to wait`() async throws {
        let stage = BinaryStage(windowSize: 10, grace: .milliseconds(40)) { _ in .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 95)
            await scene.sender.untilAnswered(10)
            #expect(scene.gateway.inFlightCount <= 10)
            await scene.sender.untilAnswered(95)
        }
        #expect(scene.tally == ["accepted": 95])
        #expect(scene.highestBatch <= 10)
    }

    @Test func `of a connection that closes without a word says nothing`() async throws {
        let stage = BinaryStage { $0.ticket == 4 ? .close : .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 5)
            await scene.sender.untilAnswered(5)
        }
        #expect(scene.tally == ["unanswered": 5])
    }

    @Test func `of a peer that does not even acknowledge is none`() async throws {
        let (count, bytes) = (12_000, 2000)
        let stage = BinaryStage(windowSize: count, grace: .milliseconds(50)) { $0.ticket == 0 ? .hold : .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(Sender.push(bytes: bytes), count: count)
            while scene.server.arrivals.isEmpty { await scene.loop.pause(.milliseconds(2)) }
            // Many times the grace later, the pushes that neither the peer's kernel nor the local one could take are
            // still open.
            await scene.loop.pause(.milliseconds(500))
            scene.note("open after a while", scene.gateway.inFlightCount)
            scene.server.connections[0].stream.resumeReading()
            await scene.sender.untilAnswered(count)
        }
        #expect(scene.notes["open after a while"] ?? 0 > 0)
        #expect(scene.results.count == count)
    }

    @Test func `of a peer that takes nothing any more ends the connection`() async throws {
        var settings = GatewaySettings.brisk
        (settings.pingAfterSilence, settings.pingTime) = (.milliseconds(200), .milliseconds(200))
        let (count, bytes) = (12_000, 2000)
        let stage = BinaryStage(settings: settings, windowSize: count, grace: .milliseconds(50)) { arrival in
            arrival.connection == 0 ? .hold : .silence
        }
        let scene = try await stage.run { scene in
            scene.sender.send(Sender.push(bytes: bytes), count: count)
            await scene.sender.untilAnswered(count)
        }
        // Pushes that never left are sent over the next connection.
        #expect(scene.ticketsByConnection.count > 1)
        #expect(scene.tally["unanswered"] ?? 0 > 0)
    }

    @Test func `of a line that has been cut is not believed, though all was acknowledged before`() async throws {
        var settings = GatewaySettings.brisk
        (settings.pingAfterSilence, settings.pingTime) = (.seconds(1), .seconds(3))
        settings.maximumConnections = 1
        let (impatient, stage) = (settings, BinaryStage(settings: settings) { _ in .silence })
        _ = try await stage.run { scene in
            let proxy = try SilentProxy(toPort: scene.server.port)
            defer { proxy.close() }
            for attempt in 1...20 {
                let gateway = try BinaryGateway(
                    endpoint: Endpoint(parsing: proxy.address, authorities: scene.authorities),
                    identity: scene.identity, settings: impatient, loop: scene.loop)
                defer { gateway.close() }
                let sender = Sender(gateway)
                let sentAt = scene.loop.now
                sender.send(count: 10)
                while scene.server.arrivals.count < 10 * attempt { await scene.loop.pause(.milliseconds(2)) }
                proxy.cutLines()
                // If the line was open for about a second after the pushes, their silence counts as acceptance: the
                // machine was too slow for the test.
                guard sentAt.duration(to: scene.loop.now) < .milliseconds(900) else { continue }
                // An error that says that the server accepted no push after the fifth.
                scene.server.connections[attempt - 1].writeError(8, 5)
                await sender.untilAnswered(10)
                #expect(sender.tally == ["unanswered": 10])
                return
            }
            Issue.record("the machine was always too slow to cut the line within a second")
        }
    }

    @Test func `is awaited by a drain`() async throws {
        let stage = BinaryStage(grace: .milliseconds(100)) { _ in .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 20)
            await scene.sender.until { scene.gateway.inFlightCount == 20 }
            await scene.gateway.drain()
        }
        #expect(scene.tally == ["accepted": 20])
    }

    @Test func `is not awaited beyond the time of a drain`() async throws {
        var settings = GatewaySettings.brisk
        settings.drainTime = .milliseconds(50)
        let stage = BinaryStage(settings: settings, grace: .seconds(20)) { _ in .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 20)
            await scene.sender.until { scene.gateway.inFlightCount == 20 }
            await scene.gateway.drain()
        }
        #expect(scene.tally == ["unanswered": 20])
    }
}

@Suite(.timeLimit(.minutes(10))) struct `The binary gateway` {
    @Test func `writes what the interface wants`() async throws {
        let stage = BinaryStage(grace: .milliseconds(100)) { _ in .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(Sender.push(payload: "{}"), count: 1)
            await scene.sender.untilAnswered(1)
        }
        let notification = try #require(scene.arrivals.first)
        #expect(notification.command == 2)
        #expect(notification.identifier == 1)
        #expect(notification.expiration == 0)
        #expect(notification.priority == 10)
        #expect(notification.payload == Array("{}".utf8))
        #expect(notification.token == [UInt8](repeating: 0, count: 8) + [UInt8](repeating: 0xAB, count: 24))
    }

    @Test(arguments: [BinaryCommand.simple, .enhanced])
    func `speaks the old commands too`(command: BinaryCommand) async throws {
        let stage = BinaryStage(command: command) { arrival in
            guard arrival.ticket == 3, arrival.connection == 0 else { return .silence }
            return arrival.notification.identifier.map { .error(status: 8, identifier: $0) } ?? .close
        }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 4)
            await scene.sender.untilAnswered(4)
        }
        #expect(scene.arrivals.allSatisfy { $0.command == command.rawValue })
        // Without an identifier, it is unknown which push was at fault.
        #expect(
            scene.tally == (command == .simple ? ["unanswered": 4] : ["accepted": 3, "400 BadDeviceToken": 1]))
    }

    @Test func `refuses what the interface cannot carry without sending it`() async throws {
        let push = { @Sendable (type: PushType, priority: Priority?, collapseID: PreparedPush.CollapseID, bytes: Int) in
            PreparedPush(
                topic: "com.example.App", pushType: type, priority: priority, expiration: .apnsDefault,
                collapseID: collapseID, payload: [UInt8](repeating: 0x20, count: bytes))
        }
        let stage = BinaryStage(grace: .milliseconds(100)) { _ in .silence }
        let scene = try await stage.run { scene in
            let pushes = [
                push(.alert, .immediate, .apnsID, 2048), push(.alert, .immediate, .none, 2049),
                push(.voip, nil, .none, 10), push(.alert, .passive, .none, 10), push(.alert, nil, .constant("a"), 10),
                push(.background, nil, .none, 10),
            ]
            for (index, push) in pushes.enumerated() {
                scene.sender.send(push, count: 1, from: UInt64(index))
                await scene.sender.untilAnswered(index + 1)
            }
        }
        #expect(
            (0..<6).map { scene.results[$0] } == [
                "accepted", "413 PayloadTooLarge", "400 InvalidPushType", "400 BadPriority", "400 BadCollapseId",
                "accepted",
            ])
        #expect(scene.arrivals.map(\.priority) == [10, 5])
    }

    @Test func `tells that its certificate is refused`() async throws {
        let stage = BinaryStage(isKnown: false) { _ in .silence }
        _ = try await stage.run { scene in
            scene.gateway.requestCapacity()
            await scene.sender.until { !scene.sender.refusedCredentials.isEmpty }
            #expect(scene.sender.refusedCredentials[0].reason == .named("BadCertificate"))
        }
    }

    @Test func `knows that nothing was looked at where its certificate is refused`() async throws {
        let stage = BinaryStage(isKnown: false) { _ in .silence }
        let scene = try await stage.run { scene in
            scene.sender.resendsUntouched = false
            scene.sender.send(count: 3)
            await scene.sender.untilAnswered(3)
        }
        #expect(scene.tally == ["untouched": 3])
    }

    @Test func `gives back what has not left when it is closed`() async throws {
        let stage = BinaryStage(grace: .milliseconds(100)) { _ in .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            scene.sender.resendsUntouched = false
            scene.sender.send(count: 5, from: 1)
            scene.gateway.close()
            await scene.sender.untilAnswered(6)
        }
        #expect(scene.tally == ["accepted": 1, "untouched": 5])
        #expect(scene.ticketsByConnection == [[0]])
    }

    @Test func `closes a connection that is idle, and opens one again`() async throws {
        var settings = GatewaySettings.brisk
        settings.closeAfterIdle = .milliseconds(200)
        let stage = BinaryStage(settings: settings, grace: .milliseconds(20)) { _ in .silence }
        let scene = try await stage.run { scene in
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            while scene.gateway.connectionCount > 0 { await scene.loop.pause(.milliseconds(2)) }
            #expect(scene.gateway.state == .idle)
            scene.sender.send(count: 1, from: 1)
            await scene.sender.untilAnswered(2)
        }
        #expect(scene.ticketsByConnection == [[0], [1]])
    }
}
