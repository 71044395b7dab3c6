import Testing

@testable import APNsSimulator

@Suite struct `A notification of the binary interface, as the simulator reads it` {
    private static let framed: [UInt8] = [
        2, 0, 0, 0, 29, 1, 0, 2, 0xAA, 0xBB, 2, 0, 3, 0x7B, 0x20, 0x7D, 3, 0, 4, 1, 2, 3, 4, 4, 0, 4, 0x5F, 0x5E, 0x10,
        0, 5, 0, 1, 5,
    ]
    private static let enhanced: [UInt8] = [
        1, 1, 2, 3, 4, 0x5F, 0x5E, 0x10, 0, 0, 2, 0xAA, 0xBB, 0, 3, 0x7B, 0x20, 0x7D,
    ]
    private static let simple: [UInt8] = [0, 0, 2, 0xAA, 0xBB, 0, 3, 0x7B, 0x20, 0x7D]

    private func read(_ bytes: [UInt8], step: Int) throws -> [BinaryNotification] {
        var parser = BinaryNotification.Parser()
        var found: [BinaryNotification] = []
        for start in stride(from: 0, to: bytes.count, by: step) {
            try parser.take(Array(bytes[start..<min(start + step, bytes.count)]).span) {
                found.append($0)
                return true
            }
        }
        return found
    }

    @Test(arguments: [1, 3, 10, 1000])
    func `is read in all three forms, however it is cut`(step: Int) throws {
        let found = try read(Self.framed + Self.simple + Self.enhanced + Self.framed, step: step)
        #expect(found.map(\.command) == [2, 0, 1, 2])
        #expect(found.allSatisfy { $0.token == [0xAA, 0xBB] })
        #expect(found.allSatisfy { $0.payload == Array("{ }".utf8) })
        #expect(found.map(\.identifier) == [0x0102_0304, nil, 0x0102_0304, 0x0102_0304])
        #expect(found.map(\.expiration) == [1_600_000_000, nil, 1_600_000_000, 1_600_000_000])
        #expect(found.map(\.priority) == [5, nil, nil, 5])
    }

    @Test(
        arguments: [
            [3, 0, 0],  // no command
            [2, 0, 0, 0, 3, 9, 0, 0],  // no item
            [2, 0, 0, 0, 4, 1, 0, 5, 0],  // an item longer than its frame
            [2, 0, 0, 0, 5, 3, 0, 2, 0, 0],  // an identifier of two bytes
            [2, 0x7F, 0, 0, 0],  // a frame of two gigabytes
        ] as [[UInt8]])
    func `cannot be read on behind what is none`(bytes: [UInt8]) {
        #expect(throws: BinaryNotification.Unreadable()) { try read(bytes, step: 100) }
    }

    @Test func `may lack items, which are missed and not made up`() throws {
        let found = try read([2, 0, 0, 0, 5, 1, 0, 2, 7, 8], step: 100)
        #expect(found == [BinaryNotification(command: 2, token: [7, 8])])
    }
}
