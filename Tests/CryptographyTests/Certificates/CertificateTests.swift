import Foundation
import Testing

@testable import Cryptography

@Suite struct `A certificate` {
    @Test func `says whose it is, for how long, and for which topics`() throws {
        let certificate = try Certificate.all(inPEM: Array(Fixtures.certificate.utf8))[0]
        #expect(
            certificate.subject
                == .init(
                    userID: "com.example.App", commonName: "Apple Push Services: com.example.App",
                    organizationalUnit: "TEAM123456"))
        #expect(certificate.subjectName.contains("CN=Apple Push Services: com.example.App"))
        #expect(certificate.notBefore == Date(timeIntervalSince1970: 1_795_232_390))
        #expect(certificate.notAfter.timeIntervalSince(certificate.notBefore) == 3650 * 86_400)
        #expect(certificate.topics == ["com.example.App"])
        #expect(certificate.sha256Fingerprint.count == 32)
        #expect(certificate.belongs(to: try PrivateKey(pem: Array(Fixtures.key.utf8))))
        #expect(!certificate.belongs(to: try PrivateKey.makeP256()))
    }

    @Test func `is one of several in a text`() throws {
        let text = "first\n\(Fixtures.certificate)\nsecond\n\(Fixtures.certificate)\n"
        #expect(try Certificate.all(inPEM: Array(text.utf8)).count == 2)
    }

    @Test func `that is broken or missing is told`() {
        #expect(throws: CryptographyError.self) { try Certificate.all(inPEM: Array(Fixtures.key.utf8)) }
        let cut = Fixtures.certificate.replacingOccurrences(of: "MIICIDCC", with: "MIICIDCD")
        #expect(throws: CryptographyError.self) { try Certificate.all(inPEM: Array(cut.utf8)) }
    }
}

@Suite struct `Apple's extensions` {
    private let authority: CertificateAuthority

    init() throws {
        authority = try .make(commonName: "Test authority")
    }

    @Test func `survive being written and read`() throws {
        let topics = [
            APNsExtensions.Topic(name: "com.example.App", kinds: ["app"]),
            APNsExtensions.Topic(name: "com.example.App.voip", kinds: ["voip"]),
            APNsExtensions.Topic(name: "com.example.App.complication", kinds: ["complication", "more"]),
        ]
        let apns = APNsExtensions(
            isForSandbox: true, isForProduction: true, topics: topics, voipTopics: ["com.example.App"])
        let identity = try authority.issueClient(.init(userID: "com.example.App"), apns: apns)
        #expect(identity.certificate.apns == apns)
        #expect(identity.certificate.topics == topics.map(\.name))
        #expect(identity.certificate.issuerName == "CN=Test authority")
    }

    @Test func `name the topics of an older certificate for VoIP in one text`() throws {
        let apns = APNsExtensions(isForProduction: true, voipTopics: ["com.example.App", "com.example.App.voip"])
        let certificate = try authority.issueClient(.init(userID: "com.example.App.voip"), apns: apns).certificate
        #expect(certificate.apns == apns)
        #expect(certificate.topics == ["com.example.App.voip", "com.example.App"])
        // 0C: UTF8String.
        #expect(APNsExtensions.voipTopics(fromDER: [0x0C, 0x05] + Array("a ,b,".utf8)) == ["a", "b"])
        #expect(APNsExtensions.voipTopics(fromDER: [0x0C, 0x04] + Array("a, ".utf8)) == [], "shorter than it says")
        #expect(APNsExtensions.voipTopics(fromDER: [0x05, 0x00]) == [], "no text")
        #expect(APNsExtensions.voipTopics(fromDER: [0x0C, 0x01, 0x61, 0x00]) == [], "something behind it")
    }

    @Test func `hold two hundred topics, too`() throws {
        let topics = (0..<200).map { APNsExtensions.Topic(name: "com.example.app\($0)", kinds: ["app"]) }
        let identity = try authority.issueClient(.init(), apns: .init(topics: topics))
        #expect(identity.certificate.apns.topics == topics)
    }

    @Test func `that cannot be read refuse the certificate`() throws {
        let apns = APNsExtensions(topics: [.init(name: "com.example.App", kinds: ["app"])])
        let pem = try authority.issueClient(.init(), apns: apns).certificate.pem()
        let lines = pem.split(separator: "\n")
        var der = try #require(Data(base64Encoded: lines.dropFirst().dropLast().joined()))
        // The topic's name claims to be longer than the list.
        let name = try #require(der.firstRange(of: Data("com.example.App".utf8)))
        der[name.lowerBound - 1] = 0x7F
        let broken = "-----BEGIN CERTIFICATE-----\n\(der.base64EncodedString())\n-----END CERTIFICATE-----\n"
        #expect {
            try Certificate.all(inPEM: Array(broken.utf8))
        } throws: {
            "\($0)".contains("its list of topics")
        }
    }

    @Test func `are absent from other certificates`() throws {
        let identity = try authority.issueClient(.init(userID: "com.example.App"))
        #expect(identity.certificate.apns == APNsExtensions())
    }
}

@Suite struct `A TLS identity` {
    @Test func `is read from PEM in any order`() throws {
        for pem in [Fixtures.key + "\n" + Fixtures.certificate, Fixtures.certificate + "\n" + Fixtures.key] {
            #expect(try TLSIdentity(pem: Array(pem.utf8)).certificate.subject.userID == "com.example.App")
        }
    }

    @Test func `survives being written and read`() throws {
        let identity = try CertificateAuthority.make(commonName: "Root").issueServer(names: ["localhost", "::1"])
        let copy = try TLSIdentity(pem: Array(try identity.pem().utf8))
        #expect(copy.certificate.sha256Fingerprint == identity.certificate.sha256Fingerprint)
    }

    @Test func `is refused when key and certificate do not belong together`() throws {
        let pem = Fixtures.certificate + "\n" + (try PrivateKey.makeP256().pem())
        #expect {
            try TLSIdentity(pem: Array(pem.utf8))
        } throws: {
            if case CryptographyError.keyDoesNotMatch = $0 { true } else { false }
        }
    }

    @Test(arguments: [
        (Fixtures.pkcs12, "geheim"), (Fixtures.pkcs12WithoutPassword, nil), (Fixtures.pkcs12WithoutPassword, ""),
        (Fixtures.pkcs12WithOldCipher, "geheim"),
    ])
    func `is read from PKCS 12`(file: [UInt8], password: String?) throws {
        let identity = try TLSIdentity(pkcs12: file, password: password)
        #expect(identity.certificate.subject.organizationalUnit == "TEAM123456")
        #expect(identity.chain.isEmpty)
    }

    @Test func `is not opened by a wrong password`() {
        for password in ["falsch", nil] {
            #expect(throws: CryptographyError.wrongPassword(what: "PKCS#12 file")) {
                try TLSIdentity(pkcs12: Fixtures.pkcs12, password: password)
            }
        }
    }

    @Test func `is not found in what is no PKCS 12`() {
        for bytes in [[], Array("hello".utf8), Array(Fixtures.pkcs12.dropLast(9))] {
            #expect(throws: CryptographyError.self) { try TLSIdentity(pkcs12: bytes, password: "geheim") }
        }
    }
}
