import HTTP2
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(10))) struct `A gateway sends` {
    @Test func `requests as APNs wants them`() async throws {
        let request = try await Stage().run { _, scene in
            scene.sender.send(count: 1, from: 5)
            await scene.sender.untilAnswered(1)
            let request = scene.server.requests[0]
            return (request.fields, String(decoding: request.body, as: UTF8.self))
        }
        let id = APNsID(root: 7, key: 5).description
        #expect(request.0[":method"] == "POST" && request.0[":scheme"] == "https")
        #expect(request.0[":path"] == "/3/device/0000000000000005" + String(repeating: "ab", count: 24))
        #expect(request.0["authorization"] == "bearer a.b.c")
        #expect(request.0["apns-topic"] == "com.example.App")
        #expect(request.0["apns-push-type"] == "alert" && request.0["apns-priority"] == "10")
        #expect(request.0["apns-expiration"] == "0")
        #expect(request.0["apns-id"] == id && request.0["apns-collapse-id"] == id)
        #expect(request.0[":authority"]?.hasPrefix("127.0.0.1:") == true)
        #expect(request.0.count == 11)
        #expect(request.1 == #"{"aps":{"alert":"hello"}}"#)
    }

    @Test func `broadcasts as APNs wants them`() async throws {
        let channel = Array("dHN0LXNyY2gtY2hubA==".utf8)
        let request = try await Stage().run { _, scene in
            scene.sender.send(count: 1)
            await scene.sender.untilAnswered(1)
            let push = PreparedPush(
                broadcastOf: "com.example.App", priority: .powerAware, expiration: .until(4_102_444_800),
                payload: Array("{}".utf8))
            let isSent = scene.gateway.send(
                push, to: channel.span, apnsID: APNsID(root: 7, key: 5), losses: 0, wasRefused: false, ticket: 9)
            #expect(isSent)
            await scene.sender.untilAnswered(2)
            let request = scene.server.requests[1]
            return (request.fields, String(decoding: request.body, as: UTF8.self))
        }
        #expect(request.0[":method"] == "POST" && request.0[":scheme"] == "https")
        #expect(request.0[":path"] == "/4/broadcasts/apps/com.example.App")
        #expect(request.0["authorization"] == "bearer a.b.c")
        #expect(request.0["apns-channel-id"] == "dHN0LXNyY2gtY2hubA==")
        #expect(request.0["apns-request-id"] == APNsID(root: 7, key: 5).description)
        #expect(request.0["apns-push-type"] == "liveactivity" && request.0["apns-priority"] == "5")
        #expect(request.0["apns-expiration"] == "4102444800")
        #expect(request.0.count == 10)
        #expect(request.1 == "{}")
    }

    @Test func `tens of thousands over one connection, the answers in batches`() async throws {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 1
        let (tally, connectionCount, batchCount) = try await Stage(settings: settings).run { _, scene in
            scene.sender.send(count: 20_000)
            await scene.sender.untilAnswered(20_000)
            return (scene.sender.tally, scene.server.connections.count, scene.sender.batchSizes.count)
        }
        #expect(tally == ["accepted": 20_000])
        #expect(connectionCount == 1)
        #expect(batchCount < 5000)
    }

    @Test func `large bodies through small windows`() async throws {
        let (tally, byteCounts) = try await Stage().run { _, scene in
            scene.sender.send(Sender.push(bytes: 4096), count: 1000)
            await scene.sender.untilAnswered(1000)
            return (scene.sender.tally, Set(scene.server.requests.map(\.body.count)))
        }
        #expect(tally == ["accepted": 1000])
        #expect(byteCounts == [4096])
    }

    @Test func `each of the three states of an expiration, one after the other`() async throws {
        let sent = try await Stage().run { _, scene in
            for (index, expiration) in [Expiration.apnsDefault, .oneAttempt, .until(1_900_000_000)].enumerated() {
                let push = PreparedPush(
                    topic: "com.example.App", pushType: .alert, priority: nil, expiration: expiration,
                    collapseID: .none,
                    payload: Array("{}".utf8))
                scene.sender.send(push, count: 1, from: UInt64(index))
                await scene.sender.untilAnswered(index + 1)
            }
            return scene.server.requests.map { $0.fields["apns-expiration"] }
        }
        #expect(sent == [nil, "0", "1900000000"])
    }

    @Test func `the next token once it has been given`() async throws {
        let tokens = try await Stage().run { _, scene in
            scene.sender.send(count: 2)
            await scene.sender.untilAnswered(2)
            scene.gateway.use(ProviderToken(text: "d.e.f", issuedAt: 1))
            scene.sender.send(count: 2, from: 2)
            await scene.sender.untilAnswered(4)
            return scene.server.requests.compactMap { $0.fields["authorization"] }
        }
        #expect(tokens == ["bearer a.b.c", "bearer a.b.c", "bearer d.e.f", "bearer d.e.f"])
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A gateway reads answers` {
    private func results(
        count: Int = 1, settings: GatewaySettings = .brisk, _ respond: @escaping @Sendable (MockAPNs.Request) -> Void
    ) async throws -> [UInt64: String] {
        try await Stage(settings: settings, respond: respond).run { _, scene in
            scene.sender.send(count: count)
            await scene.sender.untilAnswered(count)
            return scene.sender.results
        }
    }

    @Test func `with a reason`() async throws {
        let results = try await results { $0.answer(400, body: #"{"reason":"BadDeviceToken"}"#) }
        #expect(results == [0: "400 BadDeviceToken"])
    }

    @Test func `without a body, by their status`() async throws {
        #expect(try await results { $0.answer(410) } == [0: "410 Unregistered"])
        #expect(try await results { $0.answer(503) } == [0: "503 OtherTransient"])
    }

    @Test func `with an empty reason as without one: they blame no push`() async throws {
        #expect(try await results { $0.answer(400, body: #"{"reason":""}"#) } == [0: "400 OtherTransient"])
    }

    @Test func `of 200 with a body that nobody asked for`() async throws {
        #expect(try await results { $0.answer(200, body: "junk") } == [0: "accepted"])
        #expect(try await results { $0.answer(200) } == [0: "accepted"], "the head ends the stream")
    }

    @Test func `ten thousand on one connection, without running out of window`() async throws {
        var settings = GatewaySettings.brisk
        settings.maximumConnections = 1
        let results = try await results(count: 10_000, settings: settings) {
            $0.answer(400, body: #"{"reason":"BadDeviceToken"}"#)
        }
        #expect(results.count == 10_000)
    }

    @Test func `of 200, which count even if the connection is lost before the stream has ended`() async throws {
        let results = try await results(count: 2) { request in
            request.connection.answerHead(request.streamID, 200)
            if request.streamID > 1 { request.connection.cut() }
        }
        #expect(results == [0: "accepted", 1: "accepted"])
    }

    @Test(arguments: [200, 410])
    func `once, though their stream breaks a rule after the status`(status: Int) async throws {
        let results = try await results(count: 20) { request in
            request.connection.answerHead(request.streamID, status)
            request.connection.updateWindowByNothing(of: request.streamID)
        }
        let expected = status == 200 ? "accepted" : "410 OtherTransient"
        #expect(results == Dictionary(uniqueKeysWithValues: (0..<20).map { ($0, expected) }))
    }

    /// How a server ends an answer before its end.
    enum Cut: CaseIterable {
        case connection, stream, rule

        func apply(to request: MockAPNs.Request) {
            let (connection, id) = (request.connection, request.streamID)
            switch self {
            case .connection: connection.cut()
            case .stream: connection.reset(id, .internalError)
            case .rule: connection.updateWindowByNothing(of: id)
            }
        }
    }

    /// A body that does not come may have said anything: that the token died before its app registered it again, or
    /// that a proxy answers.
    @Test(arguments: Cut.allCases)
    func `whose body is cut off, which blame neither device nor credential`(cut: Cut) async throws {
        for (status, expected) in [
            (410, "410 OtherTransient"), (403, "403 OtherTransient"), (413, "413 PayloadTooLarge"),
        ] {
            for body in ["", "<html>", #"{"reason":"Unregistered","timestamp":145811"#] {
                let results = try await results { request in
                    request.connection.answerHead(request.streamID, status)
                    if !body.isEmpty { request.connection.answerPart(request.streamID, Array(body.utf8)) }
                    cut.apply(to: request)
                }
                #expect(results == [0: expected], "\(body)")
            }
        }
    }

    @Test(arguments: Cut.allCases)
    func `whose body came whole before they were cut off, by their reason`(cut: Cut) async throws {
        let results = try await results { request in
            request.connection.answerHead(request.streamID, 410)
            let body = #"{"reason":"ExpiredToken","timestamp":1458114061260}"#
            request.connection.answerPart(request.streamID, Array(body.utf8))
            cut.apply(to: request)
        }
        #expect(results == [0: "410 ExpiredToken"])
    }

    @Test(arguments: [
        [("retry-after", "30")],
        // Independent of this machine's clock.
        [("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")],
    ])
    func `with the details of a refusal`(fields: [(String, String)]) async throws {
        let body = #"{"reason":"Unregistered","timestamp":1458114061260}"#
        let refusal = try await Stage(respond: { $0.answer(410, body: body, fields: fields) }).run { _, scene in
            let keeper = Keeper()
            scene.gateway.handler = keeper
            scene.gateway.requestCapacity()
            await keeper.until { scene.gateway.freeSlots > 0 }
            let token: [UInt8] = [1]
            let isSent = scene.gateway.send(
                Sender.push(), to: token.span, apnsID: APNsID(root: 1, key: 1), losses: 0, wasRefused: false, ticket: 3)
            #expect(isSent)
            await keeper.until { keeper.refusal != nil }
            return keeper.refusal
        }
        #expect(refusal?.deadSinceMilliseconds == 1_458_114_061_260)
        #expect(refusal?.retryAfter == .seconds(30))
        #expect(refusal?.text == "Unregistered")
    }
}

/// Keeps the last refusal.
private final class Keeper: PushGatewayHandler {
    private(set) var refusal: Refusal?
    private var wakeUp: (isDue: () -> Bool, continuation: CheckedContinuation<Void, Never>)?

    func answered(_ answers: [Answer], by gateway: any PushGateway) {
        for answer in answers { if case .refused(let refusal) = answer.result { self.refusal = refusal } }
        wake()
    }

    func capacityChanged(of gateway: any PushGateway) { wake() }
    func deliveredTooSoon(_ count: Int, by gateway: any PushGateway) {}
    func stoppedAnswering(sentAt: ContinuousClock.Instant, by gateway: any PushGateway) {}
    func connectionLost(_ reason: String, uncertain count: Int, by gateway: any PushGateway) {}
    func streamsLeftOpen(_ detail: String, by gateway: any PushGateway) {}
    func credentialRefused(
        _ reason: Reason, detail: String, connectedAt: ContinuousClock.Instant, by gateway: any PushGateway
    ) {}

    func until(_ isDue: @escaping () -> Bool) async {
        await withCheckedContinuation { continuation in
            if isDue() { continuation.resume() } else { wakeUp = (isDue, continuation) }
        }
    }

    private func wake() {
        guard let waiting = wakeUp, waiting.isDue() else { return }
        wakeUp = nil
        waiting.continuation.resume()
    }
}
