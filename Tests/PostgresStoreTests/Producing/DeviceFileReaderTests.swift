import Testing

@testable import PostgresStore

@Suite struct `Reading a file of devices` {
    /// The rows that a file gives, read in pieces of so many bytes, in hexadecimal.
    private func read(_ text: String, pieceBytes: Int = 1_000_000) throws -> (reader: DeviceFileReader, rows: [UInt8]) {
        var reader = DeviceFileReader(file: "devices.csv")
        var rows = CopyRows()
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: pieceBytes) {
            try reader.read(Array(bytes[start..<min(bytes.count, start + pieceBytes)]), into: &rows)
        }
        try reader.finish(into: &rows)
        return (reader, rows.takeLast())
    }

    /// The rows that are meant.
    private func rows(_ devices: [(token: [UInt8], userKey: String?)], inactive: Set<Int> = []) -> [UInt8] {
        var rows = CopyRows()
        for (index, device) in devices.enumerated() {
            rows.startRow(columns: 3)
            rows.add(device.token.span)
            if let userKey = device.userKey { rows.add(userKey) } else { rows.addNull() }
            rows.add(!inactive.contains(index))
        }
        return rows.takeLast()
    }

    @Test func `takes bare tokens, one a line`() throws {
        let expected = rows([([0x00, 0xAB], nil), ([0xCD], nil)])
        #expect(try read("00ab\nCD\n").rows == expected)
        #expect(try read("00ab\r\n\r\ncd").rows == expected)
        #expect(try read("\u{FEFF}00ab\ncd").rows == expected)
    }

    @Test func `takes a header and columns in any order`() throws {
        let file = try read("user_key, Token\n4711,00ab\n,cd\n")
        #expect(file.rows == rows([([0x00, 0xAB], "4711"), ([0xCD], nil)]))
        #expect(file.reader.deviceCount == 2)
    }

    @Test(arguments: [";", "\t"])
    func `takes the separators of other spreadsheets`(separator: String) throws {
        let text = "token,user_key\n00ab,\"a \(separator) b\"\ncd,2\n"
        let other = text.replacing(",", with: separator)
        #expect(try read(other).rows == rows([([0x00, 0xAB], "a \(separator) b"), ([0xCD], "2")]))
    }

    @Test func `takes an export, whose inactive devices do not come to life`() throws {
        let file = try read("token,user_key,active\nab,1,true\ncd,2,false\nef,,TRUE\n")
        #expect(file.rows == rows([([0xAB], "1"), ([0xCD], "2"), ([0xEF], nil)], inactive: [1]))
        #expect(file.reader.deviceCount == 3)
        #expect(file.reader.inactiveCount == 1)
    }

    @Test func `takes quoted fields`() throws {
        let text = "token,user_key\n\"ab\",\"a,\"\"b\"\"\"\ncd,ü\n"
        #expect(try read(text).rows == rows([([0xAB], "a,\"b\""), ([0xCD], "ü")]))
    }

    @Test(arguments: [1, 2, 3, 7, 16])
    func `does not mind where pieces are cut`(pieceBytes: Int) throws {
        let text = "token,user_key\r\n00ab,\"x\"\r\n\r\ncdef,yy\r\n12,z"
        #expect(try read(text, pieceBytes: pieceBytes).rows == read(text).rows)
    }

    @Test(arguments: [
        ("ab\nabc\n", 2, "the device token has 3 hexadecimal digits; the number must be even, such as 64"),
        ("ab\n\nxy\n", 3, "the device token has a character that is not hexadecimal at position 1"),
        ("token,user_key\nab,1\ncd\n", 3, "the line has 1 fields, and the header has 2"),
        ("token,user_key\nab,\"1\n", 2, "a quotation mark is not closed"),
        ("token,user_key\n,1\n", 2, "the device token is empty; it should be hexadecimal, such as 64 digits"),
        ("device,user\nab,1\n", 1, "there is no column 'token' in the header"),
        ("tokens,user_key\nab,1\n", 1, "there is no column 'token' in the header; is 'tokens' meant for it?"),
        ("tokne\nab\n", 1, "there is no column 'token' in the header; is 'tokne' meant for it?"),
        (
            "token;user_kye\nab;1\n", 1,
            "the column 'user_kye' is not known (columns are token, user_key, active); did you mean 'user_key'?"
        ),
        ("token,locale\nab,de\n", 1, "the column 'locale' is not known (columns are token, user_key, active)"),
        ("token,token\nab,cd\n", 1, "the column 'token' is there twice"),
        ("token,active\nab,maybe\n", 2, "the column 'active' is neither true nor false"),
        (String(repeating: "ab", count: 101), 1, "the device token has 101 bytes; at most 100 are taken"),
        ("token,user_key\nab,a\u{0}b\n", 2, "the user key is not UTF-8 text"),
    ])
    func `names the line that is broken`(text: String, line: Int, problem: String) {
        let error = #expect(throws: DeviceFileError.self) { try read(text) }
        #expect(error == DeviceFileError(file: "devices.csv", line: line, problem: problem))
        #expect(error?.description == "devices.csv:\(line): \(problem)")
    }

    @Test func `does not hold a file without newlines in memory`() {
        let endless = String(repeating: "ab", count: 100_000)
        let error = #expect(throws: DeviceFileError.self) { try read(endless, pieceBytes: 50_000) }
        #expect(error?.problem == "the line is longer than 64 KiB")
    }
}
