import TestSupport
import Testing

@testable import PostgresStore

@Suite struct `Reading a file of devices` {
    private static let known = DeviceColumn.allCases.map(\.rawValue).joined(separator: ", ")

    /// Returns the rows of a file, read in pieces of `pieceBytes` bytes.
    private func read(
        _ text: String, pieceBytes: Int = 1_000_000, for purpose: DeviceFileReader.Purpose = .importing,
        notesBrokenLines: Bool = false
    ) throws -> (reader: DeviceFileReader, rows: [UInt8]) {
        var reader = DeviceFileReader(file: "devices.csv", for: purpose, notesBrokenLines: notesBrokenLines)
        var rows = CopyRows()
        let bytes = Array(text.utf8)
        for start in stride(from: 0, to: bytes.count, by: pieceBytes) {
            try reader.read(Array(bytes[start..<min(bytes.count, start + pieceBytes)]), into: &rows)
        }
        try reader.finish(into: &rows)
        return (reader, rows.takeLast())
    }

    /// The expected rows of devices for which the file has no other columns.
    private func rows(
        _ devices: [(token: [UInt8], userKey: String?)], inactive: Set<Int> = [], lines: [Int64]? = nil
    ) -> [UInt8] {
        var rows = CopyRows()
        for (index, device) in devices.enumerated() {
            rows.startRow(columns: 15)
            // The lines after a header.
            rows.add(lines?[index] ?? Int64(index + 2))
            rows.add(device.token.span)
            if let userKey = device.userKey { rows.add(userKey) } else { rows.addNull() }
            rows.add(!inactive.contains(index))
            for _ in 1...11 { rows.addNull() }
        }
        return rows.takeLast()
    }

    @Test func `takes bare tokens, one a line`() throws {
        let expected = { rows([([0x00, 0xAB], nil), ([0xCD], nil)], lines: $0) }
        #expect(try read("00ab\nCD\n").rows == expected([1, 2]))
        #expect(try read("00ab\r\n\r\ncd").rows == expected([1, 3]))
        #expect(try read("\u{FEFF}00ab\ncd").rows == expected([1, 2]))
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

    @Test(arguments: [1, 4, 1000])
    func `takes a quotation mark within a field as it is`(pieceBytes: Int) throws {
        let text = "token,user_key\nab,monitor 24\"\r\ncd,monitor 27\"\nef,a \"quoted\" word\n01,u\"\n"
        let expected: [(token: [UInt8], userKey: String?)] = [
            ([0xAB], "monitor 24\""), ([0xCD], "monitor 27\""), ([0xEF], "a \"quoted\" word"), ([0x01], "u\""),
        ]
        #expect(try read(text, pieceBytes: pieceBytes).rows == rows(expected))
    }

    @Test(arguments: ["token\n", "\"token\"\n", "\"token\"\r\n", ""])
    func `takes tokens in quotation marks, under a heading and without one`(heading: String) throws {
        let expected = rows([([0x00, 0xAB], nil), ([0xCD], nil)], lines: heading.isEmpty ? [1, 2] : [2, 3])
        #expect(try read(heading + "\"00ab\"\n\"cd\"").rows == expected)
    }

    /// The fields are written as in RFC 4180, with quotation marks where it requires them, and in some other fields at
    /// random.
    @Test func `reads what was written, wherever pieces are cut`() throws {
        var numbers = SeededGenerator(seed: 4180)
        let parts = ["a", "ü", " ", "\"", "\"\"", ",", ";", "\n", "\r\n", "24\""]
        for _ in 1...300 {
            let separator = [",", ";", "\t"].randomElement(using: &numbers)!
            let users = (1...Int.random(in: 1...6, using: &numbers)).map { _ in
                (0..<Int.random(in: 0...5, using: &numbers)).map { _ in parts.randomElement(using: &numbers)! }.joined()
            }
            let written = users.map { user in
                let needsMarks =
                    user.hasPrefix("\"") || user.utf8.contains { "\(separator)\n\r".utf8.contains($0) }
                guard needsMarks || Bool.random(using: &numbers) else { return user }
                return "\"\(user.replacing("\"", with: "\"\""))\""
            }
            let end = ["\n", "\r\n"].randomElement(using: &numbers)!
            let text = (["token\(separator)user_key"] + written.map { "ab\(separator)\($0)" }).joined(separator: end)
            var line: Int64 = 2
            let lines = users.map { user in
                defer { line += 1 + Int64(user.utf8.count { $0 == UInt8(ascii: "\n") }) }
                return line
            }
            let expected = rows(users.map { ([0xAB], $0.isEmpty ? nil : $0) }, lines: lines)
            for pieceBytes in [1, 3, 1000] {
                #expect(try read(text, pieceBytes: pieceBytes).rows == expected, "\(text.debugDescription)")
            }
        }
    }

    @Test(arguments: [
        ("02,\"monitor", "a quotation mark is not closed"),
        (
            "02,\"monitor\" 24",
            "there is text behind a closing quotation mark; within quotation marks, write each of them twice"
        ),
    ])
    func `breaks no line behind a quotation mark that should be none`(broken: String, problem: String) throws {
        // With and without another quoted field where the open one seems to end.
        for last in ["ff,u", "ff,\"u\"", "ff,\"u\nu\""] {
            let lines = ["token,user_key", "01,\"a\nb\"", broken] + (1...4000).map { "ab,user \($0) of many" } + [last]
            for (pieceBytes, end) in [(1_000_000, "\n"), (5000, "\r\n")] {
                let text = lines.joined(separator: end) + end
                let reader = try read(text, pieceBytes: pieceBytes, notesBrokenLines: true).reader
                #expect(reader.deviceCount == 4002)
                #expect(reader.refusals == [DeviceFileError(file: "devices.csv", line: 4, problem: problem)])
                let error = #expect(throws: DeviceFileError.self) { try read(text, pieceBytes: pieceBytes) }
                #expect(error == reader.refusals[0])
            }
        }
    }

    @Test func `says of a list to send to which columns count there`() {
        let error = #expect(throws: DeviceFileError.self) { try read("token,colour\nab,1\n", for: .sending) }
        #expect(
            error?.problem == "the column 'colour' is not known: only 'token' and 'active' count here, and what "
                + "'device export' writes beside them is passed over; leave the column out")
    }

    @Test(arguments: [1, 2, 3, 7, 16])
    func `does not mind where pieces are cut`(pieceBytes: Int) throws {
        let text = "token,user_key\r\n00ab,\"x\"\r\n\r\ncdef,yy\r\n12,z"
        #expect(try read(text, pieceBytes: pieceBytes).rows == read(text).rows)
    }

    @Test(arguments: [
        ("ab\nabc\n", 2, "the device token has 3 hexadecimal digits; the number must be even, such as 64"),
        ("ab\n\nxy\n", 3, "the device token has a character that is not hexadecimal at position 1"),
        ("token,user_key\nab,1\ncd\n", 3, "the line has 1 field, and the header has 2"),
        ("token,user_key\nab,\"1\n", 2, "a quotation mark is not closed"),
        ("token,user_key\n,1\n", 2, "the device token is empty; it should be hexadecimal, such as 64 digits"),
        ("device,user\nab,1\n", 1, "there is no column 'token' in the header"),
        ("tokens,user_key\nab,1\n", 1, "there is no column 'token' in the header; is 'tokens' meant for it?"),
        ("tokne\nab\n", 1, "there is no column 'token' in the header; is 'tokne' meant for it?"),
        (
            "token;user_kye\nab;1\n", 1,
            "the column 'user_kye' is not known (columns are \(Self.known)); did you mean 'user_key'?"
        ),
        (
            "token,colour\nab,de\n", 1,
            "the column 'colour' is not known (columns are \(Self.known)); what else is known of a device is in 'attributes', as JSON"
        ),
        ("token,tags,user_key\nab,\"a\nb\",1\n\ncd,x\n", 5, "the line has 2 fields, and the header has 3"),
        ("{\"token\":\"ab\"}\n{\"user_key\":\"1\"}\n", 2, "there is no member 'token' with a text"),
        ("{\"token\":\"ab\"}\n{\"token\":\"cd\"\n", 2, "the line is not a JSON object"),
        (
            #"{"token":"ab","user_key":"\u0000"}"#, 1,
            "the line has a character that PostgreSQL cannot store: \\u0000, or half of a surrogate pair"
        ),
        (
            #"{"token":"ab","user_key":"\ud800"}"#, 1,
            "the line has a character that PostgreSQL cannot store: \\u0000, or half of a surrogate pair"
        ),
        (
            "{\"token\":\"ab\",\"locales\":\"de\"}\n", 1,
            "the member 'locales' is not known (members are \(Self.known)); did you mean 'locale'?"
        ),
        ("{\"token\":\"ab\",\"locale\":1}\n", 1, "'locale' is not a text"),
        ("token,attributes\nab,{}x\n", 2, "the attributes are not valid JSON"),
        ("token,tags\nab,[1]\n", 2, "the tags are not a list of texts"),
        (
            "token,seen_at\nab,2026-02-30\n", 2,
            "'seen_at' is not a time: use one such as 2026-11-21T09:30:00Z or 2026-11-21T10:30:00+01:00"
        ),
        (
            "token,seen_at\nab,2026-02-20T24:00:00Z\n", 2,
            "'seen_at' is not a time: use one such as 2026-11-21T09:30:00Z or 2026-11-21T10:30:00+01:00"
        ),
        ("token,token\nab,cd\n", 1, "the column 'token' is there twice"),
        ("{\"token\":\"ab\",\"token\":\"cd\"}\n", 1, "the member 'token' is there twice"),
        (#"{"token":"ab","user_key":null,"\u0075ser_key":"1"}"#, 1, "the member 'user_key' is there twice"),
        (
            "token,user_key\r00ab,1\rcd,2\r", 1,
            "a line ends with CR alone: save the file with LF or CRLF at the ends of lines"
        ),
        (
            "00ab\r" + String(repeating: "cdef\r", count: 20_000), 1,
            "a line ends with CR alone: save the file with LF or CRLF at the ends of lines"
        ),
        ("token,active\nab,maybe\n", 2, "the column 'active' is neither true nor false"),
        (String(repeating: "ab", count: 101), 1, "the device token has 101 bytes; at most 100 are taken"),
        ("token,user_key\nab,a\u{0}b\n", 2, "the user key contains a NUL character"),
        ("token,user_key\nab,\(String(repeating: "x", count: 201))\n", 2, "the user key has more than 200 bytes"),
    ])
    func `names the line that is broken`(text: String, line: Int, problem: String) {
        let error = #expect(throws: DeviceFileError.self) { try read(text) }
        #expect(error == DeviceFileError(file: "devices.csv", line: line, problem: problem))
        #expect(error?.description == "devices.csv:\(line): \(problem)")
    }

    @Test func `takes a quoted field that goes on in the next line`() throws {
        let text = "token,user_key\nab,\"a\r\nb\"\ncd,\"\n\n\"\nef,\n"
        let expected = rows([([0xAB], "a\r\nb"), ([0xCD], "\n\n"), ([0xEF], nil)], lines: [2, 4, 7])
        for pieceBytes in [1, 5, 1000] { #expect(try read(text, pieceBytes: pieceBytes).rows == expected) }
    }

    @Test func `takes objects, a line each, and says the same with them as with columns`() throws {
        let table = """
            token,user_key,active,kind,locale,time_zone,app_version,tags,attributes,installation,seen_at
            ab,ü,false,voip,de-AT,Europe/Vienna,4.12,"b|a|b","{""plan"":""pro"",""n"":1.50,""ok"":true}",i1,2026-02-20T23:59:59.5Z
            cd,,,,,,,"[""x|y"",""["",""z""]",,,2026-02-20

            """
        let objects = """

            {"token":"AB","user_key":"\\u00fc","active":false,"kind":"voip","locale":"de-AT","time_zone":"Europe/Vienna",\
            "app_version":"4.12","tags":["a","b"],"attributes":{"plan":"pro","n":1.50,"ok":true},"installation":"i1",\
            "seen_at":"2026-02-20T23:59:59.500000Z"}
            {"token":"cd","tags":["[","x|y","z"],"user_key":null,"seen_at":"2026-02-20T00:00:00Z"}
            """
        #expect(try read(objects).rows == read(table).rows)
        #expect(try read(objects).reader.profileCount == 2)
    }

    @Test func `goes on behind broken lines if it is asked to, and says which they are`() throws {
        let reader = try read("token,locale\nab,de\nabc,de\ncd,!\nef,fr\n", notesBrokenLines: true).reader
        #expect(reader.deviceCount == 2)
        #expect(reader.refusedCount == 2)
        #expect(reader.refusals.map(\.line) == [3, 4])
    }

    /// Each quotation mark is opened in one line and closed in the next, without end.
    @Test(arguments: [1000, 65_536, 1_000_000])
    func `refuses lines one by one where marks are open across more than a line may have`(pieceBytes: Int) throws {
        let token = String(repeating: "0a", count: 32)
        let lines = 1000
        let text = "token,user_key,app_version\n" + String(repeating: "\(token),5\",\"yN\n", count: lines)
        let reader = try read(text, pieceBytes: pieceBytes, notesBrokenLines: true).reader
        #expect(reader.deviceCount == 0)
        #expect(reader.refusedCount == lines)
        #expect(Array(reader.refusals.map(\.line)) == Array(2...101))
    }

    @Test func `does not hold a file without newlines in memory`() {
        let endless = String(repeating: "ab", count: 100_000)
        let error = #expect(throws: DeviceFileError.self) { try read(endless, pieceBytes: 50_000) }
        #expect(error?.problem == "the line is longer than 64 KiB")
    }
}
