import Cryptography
import Testing

@Suite struct `A private key` {
    @Test func `is read from a .p8 file`() throws {
        let key = try PrivateKey(signingKeyPEM: Array(Fixtures.key.utf8))
        #expect(key.isP256)
        #expect(try key.pem() == Fixtures.key + "\n")
    }

    @Test func `is read from an encrypted file with its password only`() throws {
        let pem = Array(Fixtures.encryptedKey.utf8)
        #expect(try PrivateKey(pem: pem, password: "geheim").pem() == Fixtures.key + "\n")
        #expect(throws: CryptographyError.wrongPassword(what: "private key")) {
            try PrivateKey(pem: pem, password: "falsch")
        }
        let reason = "it is encrypted; give its password"
        #expect(throws: CryptographyError.unreadable(what: "private key", reason: reason)) { try PrivateKey(pem: pem) }
    }

    @Test(arguments: ["", "hello", Fixtures.certificate, String(Fixtures.key.prefix(100))])
    func `is not found in other text`(text: String) {
        #expect(throws: CryptographyError.self) { try PrivateKey(pem: Array(text.utf8)) }
    }

    @Test func `of another curve is not taken for a signing key`() {
        // `openssl ecparam -name secp384r1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt`
        let pem = """
            -----BEGIN PRIVATE KEY-----
            MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDBsRMXc54uKd3rZSQVo
            aJYCEVT13j6IIax+I/HVutMsr39UVLKDvODAl69FVRiL1LmhZANiAAQeQjyMiuMo
            +jmX5bgmnwvZ9EbfVMEJTrP4eoySJ4vW7/cMgl/efL5Kz0NmUMOqwtjyDXLo8hRP
            64oqRXBOivAmoITEa42N4gAIocc53rm8EWDSY5SBLVL1/4NZc4aif1s=
            -----END PRIVATE KEY-----
            """
        let what = "an APNs signing key, which is an EC key on the curve P-256"
        #expect(throws: CryptographyError.wrongKind(what: what, found: "EC secp384r1")) {
            try PrivateKey(signingKeyPEM: Array(pem.utf8))
        }
    }

    @Test func `in another form than PKCS 8 is not taken for a signing key`() {
        // `openssl ecparam -name prime256v1 -genkey -noout`
        let traditional = """
            -----BEGIN EC PRIVATE KEY-----
            MHcCAQEEID991iwq4JOazHcJl1dENJ+S5WrgqesjHA20P6A96Mb1oAoGCCqGSM49
            AwEHoUQDQgAE7AGXNTY26DN0I3aab5q9RvKTifMqfJ3Q6jmzxLjnoDhCVoGxKr/1
            oMYxppqYt+joawGkSDN5NcZgoaEpX8DZCg==
            -----END EC PRIVATE KEY-----
            """
        let what = "an APNs signing key, which is unencrypted PKCS#8 (BEGIN PRIVATE KEY)"
        for (pem, found) in [
            (traditional, "BEGIN EC PRIVATE KEY"), (Fixtures.encryptedKey, "BEGIN ENCRYPTED PRIVATE KEY"),
        ] {
            #expect(throws: CryptographyError.wrongKind(what: what, found: found)) {
                try PrivateKey(signingKeyPEM: Array(pem.utf8))
            }
        }
    }
}

@Suite struct `An ES256 signature` {
    private let message = Array("header.claims".utf8)

    @Test func `is 64 bytes long and valid for its message and key`() throws {
        let key = try PrivateKey.makeP256()
        // Often enough that R or S sometimes begins with a zero byte, which must be kept.
        for _ in 0..<600 {
            let signature = try ES256.signature(of: message, with: key)
            #expect(signature.count == 64)
            #expect(ES256.isValid(signature, of: message, by: try key.publicKey()))
        }
    }

    @Test func `is not valid for another message, key or a changed byte`() throws {
        let key = try PrivateKey.makeP256()
        let publicKey = try key.publicKey()
        var signature = try ES256.signature(of: message, with: key)
        #expect(!ES256.isValid(signature, of: message + [0], by: publicKey))
        #expect(!ES256.isValid(signature, of: message, by: try PrivateKey.makeP256().publicKey()))
        #expect(!ES256.isValid(Array(signature.dropLast()), of: message, by: publicKey))
        signature[40] ^= 1
        #expect(!ES256.isValid(signature, of: message, by: publicKey))
        #expect(!ES256.isValid([UInt8](repeating: 0, count: 64), of: message, by: publicKey))
    }

    /// RFC 7515 appendix A.3: key, signing input and signature of a JSON web signature.
    @Test func `of the RFC's example is valid`() throws {
        let pem = """
            -----BEGIN PUBLIC KEY-----
            MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7
            6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==
            -----END PUBLIC KEY-----
            """
        let input =
            "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9"
            + "pc19yb290Ijp0cnVlfQ"
        let signature = try #require(
            Base64URL.decode(
                ("DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q").utf8))
        #expect(ES256.isValid(signature, of: Array(input.utf8), by: try PublicKey(pem: Array(pem.utf8))))
    }
}
