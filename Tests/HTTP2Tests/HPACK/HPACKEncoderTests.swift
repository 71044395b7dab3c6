import TestSupport
import Testing

@testable import HTTP2

@Suite struct `Writing header blocks` {
    /// An encoder, and a decoder that reads its output.
    private struct Pair: ~Copyable {
        var encoder = HPACKEncoder(names: Peer.names)
        var decoder = HPACKDecoder(names: Peer.names)
        var section = FieldSection()

        /// Writes a block and reads it back. Returns its fields and its number of octets.
        mutating func write(
            _ headers: PreparedHeaders, _ fields: [(FieldName, String)] = []
        ) throws -> (lines: [String], byteCount: Int) {
            var output = ByteQueue()
            encoder.beginBlock(into: &output)
            encoder.append(headers, into: &output)
            for (name, value) in fields { encoder.append(name, Array(value.utf8).span, into: &output) }
            try output.withBytes { try decoder.decode($0, into: &section) }
            return (section.lines, output.count)
        }

        /// The peer lowers or raises its SETTINGS_HEADER_TABLE_SIZE.
        mutating func setTableSize(_ size: Int) {
            encoder.setCapacityLimit(size)
            decoder.setCapacityLimit(size)
        }
    }

    private let lines = [
        ":method: POST", ":scheme: https", ":authority: api.push.apple.com", "apns-topic: com.example.App",
    ]
    private let id = "123e4567-e89b-12d3-a456-426614174000"

    @Test func `a prepared field costs one octet from the second time on`() throws {
        var pair = Pair()
        #expect(try pair.write(Peer.post).lines == lines)
        for _ in 0..<3 {
            let again = try pair.write(Peer.post)
            #expect(again.lines == lines)
            #expect(again.byteCount == 4)
        }
    }

    @Test func `a single field leaves only its name behind`() throws {
        var pair = Pair()
        let first = try pair.write(Peer.ok, [(Peer.apnsID, id)])
        #expect(first.byteCount == 1 + 1 + 8 + 37)
        for number in 0..<200 {
            let next = try pair.write(Peer.ok, [(Peer.apnsID, id), (.path, "/\(number)")])
            #expect(next.lines == [":status: 200", "apns-id: " + id, ":path: /\(number)"])
        }
        // One octet of status, two of name index, 37 of value.
        #expect(try pair.write(Peer.ok, [(Peer.apnsID, id)]).byteCount == 1 + 2 + 37)
    }

    @Test func `a path ends with the digits of a token of any length`() throws {
        for count in 0...100 {
            let token = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ count) }
            let digits = token.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            var encoder = HPACKEncoder(names: Peer.names)
            var decoder = HPACKDecoder(names: Peer.names)
            var output = ByteQueue()
            var section = FieldSection()
            encoder.append(path: Array("/3/device/".utf8).span, hexadecimal: token.span, into: &output)
            try output.withBytes { try decoder.decode($0, into: &section) }
            #expect(section.lines == [":path: /3/device/" + digits])
        }
    }

    @Test func `every byte has its two digits`() throws {
        var output = ByteQueue()
        let bytes = (0...255).map { UInt8($0) }
        output.append(hexadecimal: bytes.span)
        let text = output.withBytes { String(decoding: Array($0), as: UTF8.self) }
        #expect(text == bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined())
    }

    @Test func `a UUID is written as text, the first time and later`() throws {
        var encoder = HPACKEncoder(names: Peer.names)
        var decoder = HPACKDecoder(names: Peer.names)
        for _ in 0..<3 {
            var output = ByteQueue()
            var section = FieldSection()
            encoder.append(Peer.apnsID, uuid: (0x123e_4567_e89b_12d3, 0xa456_4266_1417_4000), into: &output)
            try output.withBytes { try decoder.decode($0, into: &section) }
            #expect(section.lines == ["apns-id: " + id])
        }
    }

    @Test func `indices follow the table as others are put into it`() throws {
        var pair = Pair()
        let topics = (0..<40).map { number in
            PreparedHeaders([.init(":method", "POST"), .init("apns-topic", "com.example.app-number-\(number)")])
        }
        for round in 0..<4 {
            for (number, topic) in topics.enumerated() {
                let written = try pair.write(topic, [(Peer.apnsID, id)])
                let expected = [":method: POST", "apns-topic: com.example.app-number-\(number)", "apns-id: " + id]
                #expect(written.lines == expected)
                if round > 0 { #expect(written.byteCount <= 1 + 1 + 2 + 37) }
            }
        }
    }

    @Test func `what was evicted is written in full again`() throws {
        var pair = Pair()
        let large = (0..<8).map { number in
            PreparedHeaders([.init("authorization", "bearer \(number)" + String(repeating: "x", count: 900))])
        }
        for round in 0..<3 {
            for (number, headers) in large.enumerated() {
                let value = "authorization: bearer \(number)" + String(repeating: "x", count: 900)
                #expect(try pair.write(headers).lines == [value], "round \(round)")
            }
        }
    }

    /// RFC 7541 §4.2: the smallest size in between is announced first, then the final one.
    @Test func `the table shrinks and grows with the peer's setting`() throws {
        var pair = Pair()
        _ = try pair.write(Peer.post)
        pair.setTableSize(0)
        #expect(try pair.write(Peer.post).lines == lines)
        #expect(try pair.write(Peer.post, [(Peer.apnsID, id)]).byteCount > 60)
        pair.setTableSize(100)
        pair.setTableSize(4096)
        _ = try pair.write(Peer.post)
        _ = try pair.write(Peer.post)
        #expect(try pair.write(Peer.post).byteCount == 4)

        pair.encoder.setCapacityLimit(50)
        pair.encoder.setCapacityLimit(4096)
        var output = ByteQueue()
        pair.encoder.beginBlock(into: &output)
        #expect(output.copy == hex("3f 13 3f e1 1f"))
    }

    /// The life of a connection: prepared headers in turn, among them a secret and some too large for a small table,
    /// single fields, and a peer that changes its table size from time to time, sometimes several times at once.
    @Test(arguments: UInt64(1)...40)
    func `what went in comes out, however the table changes`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var pair = Pair()
        let prepared = (0..<20).map { number in
            PreparedHeaders([
                .init(":method", "POST"), .init("apns-topic", "com.example.App\(number % 7)"),
                .init(
                    "authorization", "bearer \(number % 3)", indexing: number % 2 == 0 ? .neverIndexed : .incremental),
                .init("x", String(repeating: "x", count: number * 15)),
            ])
        }
        for _ in 0..<300 {
            for _ in 0..<([0, 0, 0, 0, 1, 2, 3].randomElement(using: &random)!) {
                pair.setTableSize([0, 31, 64, 100, 300, 1000, 4096, 1 << 20].randomElement(using: &random)!)
            }
            let headers = prepared.randomElement(using: &random)!
            let fields = (0..<Int.random(in: 0...3, using: &random)).map { number in
                (FieldName(application: number % 2 * 2), String(random.next() % 1000))
            }
            let expected =
                headers.fields.map { String(decoding: $0.name + Array(": ".utf8) + $0.value, as: UTF8.self) }
                + fields.map { ($0.0 == Peer.apnsID ? "apns-id: " : "apns-expiration: ") + $0.1 }
            #expect(try pair.write(headers, fields).lines == expected)
        }
    }

    @Test func `a larger table than the initial one is not used`() throws {
        var pair = Pair()
        pair.setTableSize(65_536)
        #expect(try pair.write(Peer.ok).byteCount == 1)
    }

    @Test func `a secret is marked so that nobody keeps it`() throws {
        var output = ByteQueue()
        var encoder = HPACKEncoder()
        let secret = PreparedHeaders([.init("authorization", "b", indexing: .neverIndexed)])
        encoder.append(secret, into: &output)
        #expect(output.copy == hex("1f 08 01 62"))
    }
}
