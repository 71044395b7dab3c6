import Cryptography
import Testing

@Suite struct `A sealed box` {
    private let key = [UInt8](0..<32)
    private let secret = Array("-----BEGIN PRIVATE KEY-----".utf8)
    private let row = Array("credential/7".utf8)

    @Test func `opens with what it was sealed with`() throws {
        let box = try SealedBox.seal(secret, key: key, associatedData: row)
        #expect(try SealedBox.open(box, key: key, associatedData: row) == secret)
        #expect(box.count == secret.count + 28)
    }

    @Test func `holds nothing, too`() throws {
        let box = try SealedBox.seal([], key: key, associatedData: [])
        #expect(try SealedBox.open(box, key: key, associatedData: []) == [])
    }

    @Test func `is another one each time`() throws {
        let boxes = try (0..<100).map { _ in try SealedBox.seal(secret, key: key, associatedData: row) }
        #expect(Set(boxes.map { $0.prefix(12) }).count == 100)
    }

    @Test func `stays shut for another key, another row and any changed byte`() throws {
        let box = try SealedBox.seal(secret, key: key, associatedData: row)
        #expect(throws: CryptographyError.cannotOpen) {
            try SealedBox.open(box, key: key.reversed(), associatedData: row)
        }
        #expect(throws: CryptographyError.cannotOpen) { try SealedBox.open(box, key: key, associatedData: [8]) }
        for index in box.indices {
            var changed = box
            changed[index] ^= 1
            #expect(throws: CryptographyError.cannotOpen) {
                try SealedBox.open(changed, key: key, associatedData: row)
            }
        }
    }

    @Test(arguments: [0, 1, 12, 27]) func `stays shut when it is cut short`(count: Int) throws {
        let box = try SealedBox.seal(secret, key: key, associatedData: row)
        #expect(throws: CryptographyError.cannotOpen) {
            try SealedBox.open(Array(box.prefix(count)), key: key, associatedData: row)
        }
    }

    @Test func `wants a key of 32 bytes`() {
        #expect(throws: CryptographyError.wrongKind(what: "a key of 32 bytes", found: "16 bytes")) {
            try SealedBox.seal([1], key: Array(key.prefix(16)), associatedData: [])
        }
    }

    /// Test case 16 of McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B.
    @Test func `opens what others sealed`() throws {
        let key = bytes("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
        let box = bytes(
            "cafebabefacedbaddecaf888522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48"
                + "590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b")
        let plaintext = bytes(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525"
                + "b16aedf5aa0de657ba637b39")
        let associated = bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2")
        #expect(try SealedBox.open(box, key: key, associatedData: associated) == plaintext)
    }

    private func bytes(_ hex: String) -> [UInt8] {
        let digits = Array(hex)
        return stride(from: 0, to: digits.count, by: 2).map { UInt8(String(digits[$0...$0 + 1]), radix: 16)! }
    }
}

@Suite struct `Base64 for URLs` {
    /// RFC 4648 §10, without padding.
    @Test(arguments: [
        ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"),
        ("foobar", "Zm9vYmFy"),
    ])
    func `follows the RFC's vectors both ways`(plain: String, encoded: String) {
        #expect(Base64URL.encode(plain.utf8) == encoded)
        #expect(Base64URL.decode(encoded.utf8) == Array(plain.utf8))
    }

    @Test func `uses the alphabet that is safe in URLs`() {
        #expect(Base64URL.encode([0xFB, 0xFF]) == "-_8")
    }

    @Test(arguments: ["Zg==", "Z", "Zh", "Zm9v+A", "Zm 9v"]) func `refuses what is not canonical`(text: String) {
        #expect(Base64URL.decode(text.utf8) == nil)
    }
}

@Suite struct `A SHA-256 digest` {
    @Test func `is that of FIPS 180-2`() {
        let digest = SHA256.digest(of: Array("abc".utf8))
            .map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
        #expect(digest.joined() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }
}
