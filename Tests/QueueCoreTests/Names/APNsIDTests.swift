import QueueCore
import Testing

@Suite struct `An apns-id` {
    @Test(
        arguments: [
            (0, 0, "00000000-0000-8000-8000-000000000000"),
            (1, 1, "00000000-0000-8001-8000-000000000001"),
            (0x123_4567_89AB_CDEF, 0x3EDC_BA98_7654_3210, "12345678-9abc-8def-bedc-ba9876543210"),
            ((1 << 60) - 1, (1 << 62) - 1, "ffffffff-ffff-8fff-bfff-ffffffffffff"),
        ] as [(Int64, Int64, String)])
    func `is a UUID of version 8 in lower case, made of root and key`(root: Int64, key: Int64, text: String) {
        #expect(APNsID(root: root, key: key).description == text)
    }

    @Test func `reads backwards, in either case`() {
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<1000 {
            let id = APNsID(
                root: .random(in: 0..<(1 << 60), using: &generator), key: .random(in: 0..<(1 << 62), using: &generator))
            #expect(APNsID(id.description) == id)
            #expect(APNsID(id.description.uppercased()) == id)
        }
    }

    @Test(arguments: [
        "", "00000000-0000-4000-8000-000000000000", "00000000-0000-8000-0000-000000000000",
        "0000000000008000800000000000000000000", "g0000000-0000-8000-8000-000000000000",
    ])
    func `of somebody else is not read`(text: String) {
        #expect(APNsID(text) == nil)
    }
}
