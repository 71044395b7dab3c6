import APNsSimulator
import HTTP2
import Testing

/// The server's half of RFC 9113 and RFC 7541, tested with the real simulator, over TLS.
@Suite(.timeLimit(.minutes(10))) struct `The simulator keeps to HTTP2` {
    /// Runs a table of cases with one simulator. A fault on one connection must not affect the next.
    private func run(_ cases: [ProtocolCase]) async throws {
        let rules = Rules(outcomes: [OutcomeRule(.silence, tokenPrefix: "511e")])
        try await withSimulator(configured { ($0.rules, $0.streamLimit) = (rules, 10) }) { simulator in
            for item in cases { try await run(item, simulator) }
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                #expect(await client.push()?.status == 200)
            }
        }
    }

    private func run(_ item: ProtocolCase, _ simulator: Simulator) async throws {
        try await RawClient.with(simulator) { client in
            client.send(item.start + item.bytes)
            let comment = Comment(rawValue: item.testDescription)
            switch item.outcome {
            case .connectionError(let codes):
                #expect(await client.when { client.isClosed }, comment)
                let last = client.frames.last
                #expect(last?.type == FrameType.goAway && last?.code.map(codes.contains) == true, comment)
            case .end:
                #expect(await client.when { client.isClosed }, comment)
            case .streamError(let streamID, let codes):
                await expectToGoOn(client, comment)
                let resets = client.frames.filter { $0.type == FrameType.rstStream }
                #expect(resets.map(\.streamID) == [streamID], comment)
                #expect(resets.last?.code.map(codes.contains) == true, comment)
            case .answers(let statuses):
                #expect(await client.when { client.answers.count >= statuses.count }, comment)
                await expectToGoOn(client, comment)
                #expect(client.answers.count == statuses.count, comment)
                #expect(Dictionary(client.answers.map { ($0.streamID, $0.status) }) { $1 } == statuses, comment)
                #expect(client.frames.allSatisfy { $0.type != FrameType.rstStream }, comment)
            case .data(let counts):
                await expectToGoOn(client, comment)
                let data = client.frames.filter { $0.type == FrameType.data }
                #expect(data.map(\.payload.count) == counts && data.allSatisfy { $0.streamID == 1 }, comment)
            case .nothing:
                await expectToGoOn(client, comment)
                #expect(client.answers.isEmpty && !client.frames.contains { $0.type == FrameType.rstStream }, comment)
            }
        }
    }

    /// Expects that the connection goes on. When a PING is answered, everything before it has been processed.
    private func expectToGoOn(_ client: RawClient, _ comment: Comment) async {
        client.send(ping(0xEE))
        let answer = RawClient.Frame(
            type: FrameType.ping, flags: .ack, streamID: 0, payload: Array(repeating: 0xEE, count: 8))
        #expect(await client.when { client.frames.contains(answer) || client.isClosed }, comment)
        #expect(!client.isClosed && !client.frames.contains { $0.type == FrameType.goAway }, comment)
    }

    @Test func `connections, frames and header blocks (§3, §4)`() async throws { try await run(ProtocolCase.framing) }
    @Test func `states and identifiers of streams (§5)`() async throws { try await run(ProtocolCase.streams) }
    @Test func `each kind of frame (§6)`() async throws { try await run(ProtocolCase.frames) }
    @Test func `SETTINGS and windows (§6.5, §6.9)`() async throws { try await run(ProtocolCase.settingsAndWindows) }
    @Test func `messages (§8)`() async throws { try await run(ProtocolCase.messages) }
    @Test func `header compression (RFC 7541)`() async throws { try await run(ProtocolCase.compression) }
}
