import HTTP2
import QueueCore
import Testing

@testable import APNs

@Suite struct `A command of the binary interface` {
    /// Examples written by hand from Apple's tables: two bytes of token, three of payload.
    private static let golden: [(command: BinaryCommand, bytes: [UInt8])] = [
        (.simple, [0x00, 0x00, 0x02, 0xAA, 0xBB, 0x00, 0x03, 0x7B, 0x20, 0x7D]),
        (
            .enhanced,
            [
                0x01, 0x01, 0x02, 0x03, 0x04, 0x5F, 0x5E, 0x10, 0x00, 0x00, 0x02, 0xAA, 0xBB, 0x00, 0x03, 0x7B, 0x20,
                0x7D,
            ]
        ),
        (
            .framed,
            [
                0x02, 0x00, 0x00, 0x00, 0x1D,  // 29 bytes of items
                0x01, 0x00, 0x02, 0xAA, 0xBB,
                0x02, 0x00, 0x03, 0x7B, 0x20, 0x7D,
                0x03, 0x00, 0x04, 0x01, 0x02, 0x03, 0x04,
                0x04, 0x00, 0x04, 0x5F, 0x5E, 0x10, 0x00,
                0x05, 0x00, 0x01, 0x05,
            ]
        ),
    ]

    @Test(arguments: golden)
    func `is written to the byte as Apple's tables say`(command: BinaryCommand, bytes: [UInt8]) {
        let (token, payload): ([UInt8], [UInt8]) = ([0xAA, 0xBB], Array("{ }".utf8))
        var output = ByteQueue()
        command.write(
            token: token.span, payload: payload.span, identifier: 0x0102_0304, expiration: 1_600_000_000,
            priority: .powerAware, to: &output)
        let written = output.withBytes { bytes in bytes.indices.map { bytes[$0] } }
        #expect(written == bytes)
    }

    @Test func `carries 256 bytes of payload in the old forms and 2048 in the frame`() {
        #expect(BinaryCommand.allCases.map(\.maximumPayloadBytes) == [256, 256, 2048])
    }
}
