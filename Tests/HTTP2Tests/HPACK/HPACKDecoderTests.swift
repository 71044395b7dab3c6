import Testing

@testable import HTTP2

@Suite struct `Reading header blocks` {
    /// Decodes blocks one after the other with the same table.
    private func decode(
        _ blocks: [String], capacity: Int = 4096, limits: HPACKDecoder.Limits = .init()
    ) throws(Violation) -> [[String]] {
        var decoder = HPACKDecoder(limits: limits)
        decoder.setCapacityLimit(capacity)
        // The encoder must announce a smaller table (RFC 7541 §4.2).
        var prefix = ByteQueue()
        if capacity < 4096 { prefix.appendInteger(capacity, prefixBits: 5, pattern: 0x20) }
        var section = FieldSection()
        var lists: [[String]] = []
        for (number, block) in blocks.enumerated() {
            try decoder.decode(((number == 0 ? prefix.copy : []) + hex(block)).span, into: &section)
            lists.append(section.lines)
        }
        return lists
    }

    /// RFC 7541 §C.2.
    @Test(arguments: [
        ("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", "custom-key: custom-header"),
        ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path"),
        ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret"),
        ("82", ":method: GET"),
    ])
    func `gives single fields`(block: String, line: String) throws {
        #expect(try decode([block]) == [[line]])
    }

    private static let requests = [
        [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"],
        [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com", "cache-control: no-cache"],
        [
            ":method: GET", ":scheme: https", ":path: /index.html", ":authority: www.example.com",
            "custom-key: custom-value",
        ],
    ]

    @Test func `gives the requests of C.3, without Huffman code`() throws {
        let blocks = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ]
        #expect(try decode(blocks) == Self.requests)
    }

    @Test func `gives the requests of C.4, with Huffman code`() throws {
        let blocks = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ]
        #expect(try decode(blocks) == Self.requests)
    }

    private static let date = "date: Mon, 21 Oct 2013 20:13:21 GMT"
    private static let location = "location: https://www.example.com"
    private static let responses = [
        [":status: 302", "cache-control: private", date, location],
        [":status: 307", "cache-control: private", date, location],
        [
            ":status: 200", "cache-control: private", "date: Mon, 21 Oct 2013 20:13:22 GMT", location,
            "content-encoding: gzip", "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
        ],
    ]

    @Test func `gives the responses of C.5, with eviction from 256 octets`() throws {
        let blocks = [
            """
            4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 \
            474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d
            """, "4803 3330 37c1 c0bf",
            """
            88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 \
            666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 \
            3630 303b 2076 6572 7369 6f6e 3d31
            """,
        ]
        #expect(try decode(blocks, capacity: 256) == Self.responses)
    }

    @Test func `gives the responses of C.6, with eviction and Huffman code`() throws {
        let blocks = [
            """
            4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 \
            63c7 8f0b 97c8 e9ae 82ae 43d3
            """, "4883 640e ffc1 c0bf",
            """
            88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 \
            b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07
            """,
        ]
        #expect(try decode(blocks, capacity: 256) == Self.responses)
    }

    @Test(arguments: [
        ("80", Violation.invalidIndex),  // §6.1: index 0
        ("be", .invalidIndex),  // §2.3.3: behind both tables
        ("7f 00 01 61", .invalidIndex),  // a name behind both tables
        ("ff 80 80 80 80 01", .integerTooLarge),  // §5.1
        ("40 01", .truncatedBlock),  // a name that is not there
        ("40 01 61", .truncatedBlock),  // a value that is not there
        ("40 01 61 05 62", .truncatedBlock),  // a value cut short
        ("00 ff 80 80 7f", .truncatedBlock),  // a length beyond the block
        ("40 81 ff 01 61", .invalidHuffman),  // §5.2: padding of eight bits
        ("00 84 ff ff ff ff 01 61", .invalidHuffman),  // §5.2: end of string
        ("3f e2 1f", .sizeUpdateTooLarge),  // §6.3: 4097
        ("82 20", .sizeUpdateMisplaced),  // §4.2
    ])
    func `refuses`(block: String, violation: Violation) {
        #expect(throws: violation) { try decode([block]) }
    }

    @Test func `insists that a smaller table is announced first`() throws {
        var decoder = HPACKDecoder()
        var section = FieldSection()
        decoder.setCapacityLimit(100)
        #expect(throws: Violation.sizeUpdateMissing) { try decoder.decode(hex("82").span, into: &section) }
        try decoder.decode(hex("3f 45 82").span, into: &section)
        #expect(section.lines == [":method: GET"])
    }

    @Test func `bounds a list by its octets and by its fields`() {
        let name = "61"
        let long = "00 01" + name + "7f 80 01" + String(repeating: "62", count: 255)
        #expect(throws: Violation.headerListTooLarge) {
            try decode([long], limits: .init(listByteCount: 200, fieldCount: 10))
        }
        // An entry of 4 KB that is named again and again: small on the wire, huge when decoded (CVE-2016-6581).
        let bomb =
            "40 01" + name + "7f a1 1e" + String(repeating: "62", count: 4000) + String(repeating: "be", count: 50)
        #expect(throws: Violation.headerListTooLarge) { try decode([bomb]) }
        #expect(throws: Violation.tooManyFields) { try decode([String(repeating: "82", count: 129)]) }
    }

    /// Names and values at each distance from the limit, with a name from each possible source. Text beyond the limit
    /// must be refused, and nothing else may happen. A name from the tables that took the last octet or more once
    /// crashed the process at a Huffman value.
    @Test(arguments: [60, 200, 1000]) func `holds each name and value against what is left of a list`(limit: Int) throws
    {
        for byteCount in max(0, limit - 130)...(limit + 2) {
            for isHuffmanCoded in [false, true] {
                for name in TableName.allCases {
                    try fill(byteCount, before: name, isHuffmanCoded: isHuffmanCoded, limit: limit)
                }
            }
        }
    }

    /// The source of the name of the field that reaches the limit.
    private enum TableName: Int, CaseIterable {
        case literal, ofStaticTable, ofDynamicTable, wholeFieldOfStaticTable, wholeFieldOfDynamicTable
    }

    /// Decodes a field whose text has `byteCount` octets, followed by a field with that name.
    private func fill(_ byteCount: Int, before name: TableName, isHuffmanCoded: Bool, limit: Int) throws {
        var decoder = HPACKDecoder(limits: .init(listByteCount: limit, fieldCount: 8))
        var section = FieldSection()
        // In a block of its own, for the dynamic table: a name of ten octets and a value of two.
        try decoder.decode(hex("40 0a 6e6e6e6e6e6e6e6e6e6e 02 7676").span, into: &section)
        var block = ByteQueue()
        block.append(hex("00 00"))
        block.appendInteger(byteCount, prefixBits: 7, pattern: 0)
        block.append(Array(repeating: 0x61, count: byteCount))
        // "aaa" in Huffman code has two octets.
        let value = hex(isHuffmanCoded ? "82 18c7" : "03 616161")
        let (head, textByteCount) =
            switch name {
            case .literal: (hex("00 01 62") + value, 1 + 3)
            case .ofStaticTable: (hex("0f 22") + value, "proxy-authorization".utf8.count + 3)
            case .ofDynamicTable: (hex("0f 2f") + value, 10 + 3)
            case .wholeFieldOfStaticTable: (hex("90"), "accept-encoding".utf8.count + "gzip, deflate".utf8.count)
            case .wholeFieldOfDynamicTable: (hex("be"), 10 + 2)
            }
        block.append(head)
        let bytes = block.copy
        do throws(Violation) {
            try decoder.decode(bytes.span, into: &section)
            #expect(byteCount + textByteCount + 64 <= limit)
        } catch {
            #expect(error == .headerListTooLarge)
            #expect(byteCount + textByteCount + 64 > limit)
        }
        #expect(section.textByteCount <= limit)
    }

    @Test func `gives the same identity to what it has read before`() throws {
        var decoder = HPACKDecoder()
        var section = FieldSection()
        try decoder.decode(hex("40 01 61 01 62  40 01 61 01 63  82").span, into: &section)
        let first = section.fields.map(\.identity)
        try decoder.decode(hex("bf be 00 01 61 01 62").span, into: &section)
        #expect(section.lines == ["a: b", "a: c", "a: b"])
        #expect(section.fields.map(\.identity) == [first[0], first[1], 0])
        #expect(first == [1, 2, 0])
    }
}
