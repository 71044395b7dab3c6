import TestSupport
import Testing

@testable import PostgresStore

@Suite struct `A file of users` {
    /// Reads a text in pieces of `pieces` bytes.
    private func read(_ text: String, pieces: Int = .max) throws(DeviceFileError) -> [String] {
        var reader = UserFileReader(file: "users.csv")
        var users: [String] = []
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            try reader.read(Array(rest.prefix(pieces)), into: &users)
            rest = rest.dropFirst(min(pieces, rest.count))
        }
        try reader.finish(into: &users)
        #expect(reader.userCount == users.count)
        return users
    }

    @Test(arguments: [1, 2, 3, 7, 1000]) func `has one a line, or a column among others, in pieces of any length`(
        pieces: Int
    ) throws {
        #expect(try read("anna\nbert\r\n\nca,rl\n4711", pieces: pieces) == ["anna", "bert", "ca,rl", "4711"])
        let table = "\u{FEFF}plan;User_Key ;city\npro;anna;\"a\nb\"\nfree;\"be\"\"rt\";\nfree;;x\r\npro;karl;y"
        #expect(try read(table, pieces: pieces) == ["anna", "be\"rt", "karl"])
        #expect(try read("token,user_key\naa,anna\n", pieces: pieces) == ["anna"])
        #expect(try read("user_key\nü\n", pieces: pieces) == ["ü"])
        #expect(try read("", pieces: pieces) == [])
        #expect(
            try read("user_key,x\nbert 5\",1\nanna 6\",1\nzoe,1\n", pieces: pieces) == ["bert 5\"", "anna 6\"", "zoe"])
        #expect(try read("x,user_key\r\n5\",\"an\"\"na\"\r\n6\",zoe\r\n", pieces: pieces) == ["an\"na", "zoe"])
        #expect(try read("\"user_key\"\n\"anna\"\n", pieces: pieces) == ["anna"])
        #expect(try read("\"anna\"\n\"be\"\"rt, 2\"\nzo\"e\n", pieces: pieces) == ["anna", "be\"rt, 2", "zo\"e"])
        #expect(try read("\"o'n,eil\"\nbe,rt\n", pieces: pieces) == ["o'n,eil", "be,rt"])
    }

    @Test(arguments: [
        ("token\naa\n", "users.csv:1: there is no column 'user_key' in the header"),
        (
            "id,userkey\n1,anna\n",
            "users.csv:1: there is no column 'user_key' in the header; is 'userkey' meant for it?"
        ),
        (
            "o'n,eil\nanna\n",
            "users.csv:1: there is no column 'user_key' in the header; if this line is a user key, write it in "
                + "quotation marks"
        ),
        ("userkey\nanna\n", "users.csv:1: there is no column 'user_key' in the header; is 'userkey' meant for it?"),
        ("user_key,plan\nanna,pro\nbert\n", "users.csv:3: the line has 1 field, and the header has 2"),
        ("user_key,plan\n\"anna,pro\n", "users.csv:2: a quotation mark is not closed"),
        ("user_key,plan\n\"anna,pro\nbert,pro\n", "users.csv:2: a quotation mark is not closed"),
        (
            "anna\n\"bert\" the brave\n",
            "users.csv:2: there is text behind a closing quotation mark; within quotation marks, write each of them twice"
        ),
        ("user_key,plan,User_Key\nanna,pro,anna\n", "users.csv:1: the column 'user_key' is there twice"),
        ("anna\nb\0b\n", "users.csv:2: the user key contains a NUL character"),
        (String(repeating: "x", count: 201), "users.csv:1: the user key has more than 200 bytes"),
        (String(repeating: "x", count: 70_000), "users.csv:1: the line is longer than 64 KiB"),
    ])
    func `that is broken is refused with the line that is wrong`(text: String, problem: String) throws {
        let error = #expect(throws: DeviceFileError.self) { try read(text) }
        #expect(error?.description == problem)
    }
}
