import QueueCore
import Testing

@testable import APNs

@Suite struct `An error packet` {
    private static let bytes: [UInt8] = [0x08, 0x08, 0x00, 0x00, 0x01, 0x06]

    @Test(arguments: 1...6)
    func `is read however it is cut`(step: Int) throws {
        var parser = ErrorPacket.Parser()
        var packets: [ErrorPacket] = []
        for start in stride(from: 0, to: 6, by: step) {
            let part = Array(Self.bytes[start..<min(start + step, 6)])
            if let packet = try parser.take(part.span) { packets.append(packet) }
        }
        #expect(packets == [ErrorPacket(status: .invalidToken, identifier: 0x106)])
        #expect(!parser.isWithinPacket)
    }

    @Test func `is the last word: what follows is passed over`() throws {
        var parser = ErrorPacket.Parser()
        let packet = try parser.take((Self.bytes + [1, 2, 3]).span)
        #expect(packet?.status == .invalidToken)
    }

    @Test func `is all there is to read`() {
        var parser = ErrorPacket.Parser()
        #expect(throws: BinaryProtocolError.unknownCommand(0x48)) { try parser.take(Array("HTTP/1.1".utf8).span) }
    }

    @Test func `refuses what is none as often as it comes`() {
        var parser = ErrorPacket.Parser()
        for byte in "HTTP/1.1".utf8 {
            #expect(throws: BinaryProtocolError.unknownCommand(byte)) { try parser.take([byte].span) }
        }
    }

    @Test func `says nothing before it is complete`() throws {
        var parser = ErrorPacket.Parser()
        #expect(try parser.take(Array(Self.bytes.dropLast()).span) == nil)
        #expect(parser.isWithinPacket)
    }
}
