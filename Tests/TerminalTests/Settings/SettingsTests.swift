import Foundation
import PostgresStore
import Testing

@testable import Terminal

@Suite struct `Passwords in a connection string` {
    @Test(arguments: [
        ("postgres://me:secret@host/db", "postgres://me:******@host/db"),
        ("--database-url=postgres://me:secret@host", "--database-url=postgres://me:******@host"),
        ("postgres://host/db?password=secret&x=1", "postgres://host/db?password=******&x=1"),
        ("host=a password=secret user=b", "host=a password=****** user=b"),
        ("host=a password = secret user=b", "host=a password = ****** user=b"),
        (#"password='a \'secret' host=a"#, #"password='**********' host=a"#),
        ("password='a", "password='*"), ("passwords=1", "passwords=1"),
        ("postgres://me@host:5432/db", "postgres://me@host:5432/db"),
        ("acme/shop/production", "acme/shop/production"),
    ])
    func `are found`(word: String, expected: String) {
        var bytes = Array(word.utf8)
        for position in ConnectionPassword.positions(in: bytes) { bytes[position] = UInt8(ascii: "*") }
        #expect(String(decoding: bytes, as: UTF8.self) == expected)
    }
}

@Suite struct `Device tokens on a command line` {
    @Test(arguments: [
        (String(repeating: "0aF1", count: 16), "0aF10aF1" + String(repeating: "*", count: 56)),
        ("--token=" + String(repeating: "ab", count: 20), "--token=abababab" + String(repeating: "*", count: 32)),
        (String(repeating: "ab", count: 19), String(repeating: "ab", count: 19)),
        ("acme/com.acme.shop/production", "acme/com.acme.shop/production"),
    ])
    func `are found, but for their beginning`(word: String, expected: String) {
        var bytes = Array(word.utf8)
        for position in TokenDigits.positions(in: bytes) { bytes[position] = UInt8(ascii: "*") }
        #expect(String(decoding: bytes, as: UTF8.self) == expected)
    }
}

@Suite struct `The master key setting` {
    private let key = String(repeating: "0f", count: 32)

    @Test func `is read from the environment`() throws {
        let setting = MasterKeySetting(environment: ["PUSHQ_MASTER_KEY": key])
        #expect(try setting.key().hexadecimal == key)
    }

    @Test func `is read from a file, with the newline that an editor leaves`() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "pushq-key-\(UUID().uuidString)")
        try Data((key + "\n").utf8).write(to: url)
        defer { try? FileManager.default.removeItem(at: url) }
        let setting = MasterKeySetting(environment: ["PUSHQ_MASTER_KEY_FILE": url.path])
        #expect(try setting.key().hexadecimal == key)
    }

    @Test(arguments: ["", "abc", String(repeating: "zz", count: 32), String(repeating: "0f", count: 16)])
    func `says how to make one without repeating a wrong one`(text: String) {
        let setting = MasterKeySetting(environment: ["PUSHQ_MASTER_KEY": text])
        let error = #expect(throws: Failure.self) { try setting.key() }
        #expect(error?.description.contains("openssl rand -hex 32") == true)
        #expect(text.isEmpty || error?.description.contains(text) == false)
    }

    @Test func `says how to set one when there is none`() {
        let error = #expect(throws: Failure.self) { try MasterKeySetting(environment: [:]).key() }
        #expect(error?.description.contains("PUSHQ_MASTER_KEY_FILE") == true)
    }
}

@Suite struct `Hexadecimal digits` {
    @Test func `go both ways`() {
        #expect(Hexadecimal.bytes(of: "00fFa1") == [0, 255, 161])
        #expect(Hexadecimal.text(of: [0, 255, 161]) == "00ffa1")
        #expect(Hexadecimal.bytes(of: "0") == nil)
        #expect(Hexadecimal.bytes(of: "0é") == nil)
    }
}
