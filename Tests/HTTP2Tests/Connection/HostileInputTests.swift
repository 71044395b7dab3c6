import TestSupport
import Testing

@testable import HTTP2

/// No input from a peer may crash the process: a trap would end every tenant's pushes.
@Suite struct `Hostile input` {
    /// Frames of every type, some valid and some almost valid.
    private func frames(_ random: inout SeededGenerator, count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        for _ in 0..<count {
            let type = UInt8.random(in: 0...11, using: &random)
            let flags = FrameFlags(rawValue: [0, 1, 4, 5, 8, 0x0d, 0x20, 0x2d, 0xff].randomElement(using: &random)!)
            let streamID: UInt32 = [0, 1, 3, 5, 7, 9, 2, 0x7fff_ffff].randomElement(using: &random)!
            bytes += frame(type, flags, on: streamID, payload(type, &random))
        }
        return bytes
    }

    private func payload(_ type: UInt8, _ random: inout SeededGenerator) -> [UInt8] {
        switch Int.random(in: 0...5, using: &random) {
        case 0: return []
        case 1:
            return (0..<Int.random(in: 0...64, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
        case 2: return block([(":status", "200"), ("apns-id", "x")])
        case 3: return block([(":method", "POST"), (":scheme", "https"), (":path", "/"), ("content-length", "5")])
        case 4: return bigEndian([0, 1, 100, 0x7fff_ffff, 0xffff_ffff].randomElement(using: &random)!)
        default:
            let identifier = UInt8.random(in: 0...7, using: &random)
            let value: UInt32 = [0, 1, 100, 16_384, 65_535, 0x7fff_ffff, 0xffff_ffff].randomElement(using: &random)!
            return type == FrameType.settings ? [0, identifier] + bigEndian(value) : [0, 0, 0, 0, 0, 0, 0, identifier]
        }
    }

    @Test(arguments: UInt64(1)...200) func `of frames leaves a client in order or closes it`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let client = Peer.client()
        for _ in 0..<4 {
            client.request(body: String(repeating: "x", count: Int.random(in: 0...100_000, using: &random)))
        }
        feed(client, frames(&random, count: 60), &random)
    }

    @Test(arguments: UInt64(1)...200) func `of frames leaves a server in order or closes it`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let server = Peer.server()
        server.recorder.whenComplete = { [connection = server.connection] stream in
            if connection.openResponse(on: stream.id, Peer.ok) {
                connection.finish(body: Array(repeating: 0, count: 30_000))
            }
        }
        feed(server, frames(&random, count: 60), &random)
    }

    @Test(arguments: UInt64(1)...100) func `of damaged octets does no more`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let client = Peer.client()
        for _ in 0..<8 { client.request() }
        var bytes: [UInt8] = []
        for id: UInt32 in stride(from: 1, through: 15, by: 2) {
            bytes += response("400", on: id, [("apns-id", "00000000-0000-8000-8000-000000000000")], body: "{}")
        }
        for _ in 0..<Int.random(in: 1...5, using: &random) {
            bytes[Int.random(in: bytes.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
        }
        feed(client, bytes, &random)
    }

    /// Feeds bytes in pieces. Whatever they are, the connection's state must remain consistent.
    private func feed(_ peer: Peer, _ bytes: [UInt8], _ random: inout SeededGenerator) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let piece = rest.prefix(Int.random(in: 1...200, using: &random))
            rest = rest.dropFirst(piece.count)
            peer.receive(Array(piece))
            let sent = peer.sent()
            #expect(sent.allSatisfy { $0.payload.count <= peer.connection.peerSettings.maximumFrameSize })
            var openCount = 0
            peer.connection.forEachOpenStream { _, _ in openCount += 1 }
            #expect(openCount == peer.connection.openStreamCount)
            if peer.failure != nil { #expect(sent.isEmpty || sent.last?.type == FrameType.goAway) }
            guard peer.failure == nil else { break }
        }
        let failures = peer.recorder.events.count { if case .failed = $0 { true } else { false } }
        #expect(failures == (peer.failure == nil ? 0 : 1))
    }
}
