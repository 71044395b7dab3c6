import Foundation
import PostgresStore
import Testing
import Transport

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
        ("user=password_admin password=secret", "user=password_admin password=******"),
        ("sslpassword=one password=two", "sslpassword=*** password=***"),
        ("postgres://host/db?sslpassword=one&password=two", "postgres://host/db?sslpassword=***&password=***"),
        ("postgres://me:pa?ss@host/db", "postgres://me:*****@host/db"),
        ("host=db password=s3c&ret user=a", "host=db password=******* user=a"),
        (#"host=db password=my\ pass user=a"#, "host=db password=******** user=a"),
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
        ("<01234567 89abcdef 01234567 89abcdef 01234567>", "<01234567 ******** ******** ******** ********>"),
        ("01234567 89abcdef 01234567 89abcdef 01234567 x", "01234567 ******** ******** ******** ******** x"),
        ("acme/com.acme.shop/production", "acme/com.acme.shop/production"),
    ])
    func `are found, but for their beginning`(word: String, expected: String) {
        var bytes = Array(word.utf8)
        for position in TokenDigits.positions(in: bytes) { bytes[position] = UInt8(ascii: "*") }
        #expect(String(decoding: bytes, as: UTF8.self) == expected)
    }

    @Test(arguments: [
        ("pushq send acme/com.acme.shop/production --token 0123456789 --alert hi", "--token 01234567**"),
        ("pushq send acme/com.acme.shop/production --token=0123456789ab", "--token=01234567****"),
        ("pushq-admin device show acme/com.acme.shop/production 0123456789", "production 01234567**"),
        ("pushq-admin --json device forget acme/com.acme.shop/production 0123456789 ab", "production 01234567** ab"),
        ("pushq-admin send show acme/com.acme.shop/production 1234567890", "production 1234567890"),
    ])
    func `are found where they are expected, even short ones`(line: String, expected: String) {
        let words = line.split(separator: " ").map(String.init)
        let shown = words.indices.map { index in
            var bytes = Array(words[index].utf8)
            let isToken = TokenDigits.isToken(at: index, of: words)
            for position in TokenDigits.positions(in: bytes, isToken: isToken) { bytes[position] = UInt8(ascii: "*") }
            return String(decoding: bytes, as: UTF8.self)
        }
        #expect(shown.joined(separator: " ").contains(expected))
    }
}

@Suite struct `The master key setting` {
    private let key = String(repeating: "0f", count: 32)
    private let older = String(repeating: "1e", count: 32)
    private let transcript = Transcript()

    private func keys(_ environment: [String: String]) throws -> MasterKeys {
        try MasterKeySetting(environment: environment).keys(transcript.console().warn)
    }

    /// Reads a key file with the given text and mode.
    private func keys(inFile text: String, mode: Int = 0o600) throws -> MasterKeys {
        let url = FileManager.default.temporaryDirectory.appending(path: "pushq-key-\(UUID().uuidString)")
        try Data(text.utf8).write(to: url)
        defer { try? FileManager.default.removeItem(at: url) }
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: url.path)
        return try keys(["PUSHQ_MASTER_KEY_FILE": url.path])
    }

    @Test func `is read from the environment`() throws {
        #expect(try keys(["PUSHQ_MASTER_KEY": key]).first.hexadecimal == key)
    }

    @Test func `is read from a file, with the newline that an editor leaves`() throws {
        #expect(try keys(inFile: key + "\n").first.hexadecimal == key)
        #expect(transcript.errors.isEmpty)
    }

    @Test func `lists several keys, of which the first seals`() throws {
        let names = try [key, older].map { try keys(["PUSHQ_MASTER_KEY": $0]).first.name }
        #expect(try keys(["PUSHQ_MASTER_KEY": "\(key),\(older)"]).names == names)
        #expect(try keys(["PUSHQ_MASTER_KEY": " \(key) \(older)\n"]).names == names)
        #expect(try keys(inFile: "# of March\n\(key)\n\n\(older)  # of January\n").names == names)
        #expect(throws: Failure.self) { try keys(inFile: "\(key)\n\(older.dropLast())\n") }
    }

    @Test(arguments: [0o644, 0o640, 0o604, 0o660, 0o610])
    func `is refused in a file of one's own that others have access to, as ssh refuses keys`(mode: Int) throws {
        let error = #expect(throws: Failure.self) { try keys(inFile: key, mode: mode) }
        #expect(
            error?.description.contains(
                "its mode 0\(String(mode, radix: 8)) gives others access to it. Run 'chmod 600 /") == true)
        #expect(error?.description.contains(key) == false)
    }

    @Test(arguments: [0o600, 0o400, 0o700])
    func `is read from a file that is its owner's alone`(mode: Int) throws {
        #expect(try keys(inFile: key, mode: mode).first.hexadecimal == key)
    }

    @Test func `keeps the process from leaving a core dump`() throws {
        _ = try keys(["PUSHQ_MASTER_KEY": key])
        #expect(CoreDumps.areForbidden)
    }

    @Test(arguments: ["", "abc", "#", String(repeating: "zz", count: 32), String(repeating: "0f", count: 16)])
    func `says how to make one without repeating a wrong one`(text: String) {
        let error = #expect(throws: Failure.self) { try keys(["PUSHQ_MASTER_KEY": text]) }
        #expect(error?.description.contains("openssl rand -hex 32") == true)
        #expect(text.count < 3 || error?.description.contains(text) == false)
    }

    @Test(
        arguments: [
            [:], ["PUSHQ_MASTER_KEY_FILE": ""], ["PUSHQ_MASTER_KEY": ""],
            ["PUSHQ_MASTER_KEY": "", "PUSHQ_MASTER_KEY_FILE": ""],
        ] as [[String: String]])
    func `says how to set one when there is none, or an empty one`(environment: [String: String]) {
        let error = #expect(throws: Failure.self) { try keys(environment) }
        #expect(error?.description.hasPrefix("no master key: ") == true)
        #expect(error?.description.contains("PUSHQ_MASTER_KEY_FILE") == true)
        #expect(!MasterKeySetting(environment: environment).isGiven)
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

@Suite struct `A file with a secret that others have access to` {
    @Test(arguments: [false, true])
    func `is warned of with the command that mends it, and the console says that it is a warning`(json: Bool) throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "pushq-secret-\(UUID().uuidString)")
        try Data("secret".utf8).write(to: url)
        defer { try? FileManager.default.removeItem(at: url) }
        try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: url.path)
        let warning = try #require(SecretFile(url.path).warning)
        #expect(
            warning == "the mode 0644 of \(url.path) gives others access to the secret in it. "
                + "Run 'chmod 600 \(url.path)'")
        let transcript = Transcript()
        transcript.console(speaksJSON: json).warn(warning)
        #expect(transcript.errors == (json ? #"{"note":"warning: \#(warning)"}"# : "warning: \(warning)") + "\n")
    }
}
