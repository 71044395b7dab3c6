import Foundation

@testable import Cryptography

/// Credentials as operators give them: PEM text, certificates in DER, and Apple's list of topics in them. The outer
/// encryption of PKCS#12 is OpenSSL's alone and is not tried: how long it takes is written in the file.
enum CertificateTarget: FuzzTarget {
    static let name = "certificate"

    /// The first byte says what the rest is.
    static func read(_ input: [UInt8]) {
        var reader = InputReader(input)
        let kind = reader.byte()
        let bytes = reader.remainder()
        switch kind {
        case UInt8(ascii: "D"): inspect(pem: pem(ofDER: bytes))
        case UInt8(ascii: "T"): readTopics(bytes)
        case UInt8(ascii: "V"): readVoIPTopics(bytes)
        default: inspect(pem: bytes)
        }
    }

    private static func inspect(pem: [UInt8]) {
        for certificate in (try? Certificate.all(inPEM: pem)) ?? [] {
            precondition(certificate.sha256Fingerprint.count == 32)
            // What was read is written and read again without a change.
            let copy = try? Certificate.all(inPEM: Array(certificate.pem().utf8))
            precondition(copy?.count == 1 && copy?[0].sha256Fingerprint == certificate.sha256Fingerprint)
            precondition(copy?[0].apns == certificate.apns && copy?[0].subject == certificate.subject)
            _ = (certificate.topics, certificate.subjectName, certificate.issuerName, certificate.notBefore)
        }
        _ = try? TLSIdentity(pem: pem)
        _ = try? PrivateKey(signingKeyPEM: pem)
    }

    /// Base64 hides from a fuzzer what a byte of it means.
    private static func pem(ofDER bytes: [UInt8]) -> [UInt8] {
        let text = Data(bytes).base64EncodedString(options: .lineLength64Characters)
        return Array("-----BEGIN CERTIFICATE-----\n\(text)\n-----END CERTIFICATE-----\n".utf8)
    }

    private static func readTopics(_ bytes: [UInt8]) {
        guard let topics = APNsExtensions.topics(fromDER: bytes) else { return }
        let byteCount = topics.reduce(0) { $0 + $1.name.utf8.count + $1.kinds.reduce(0) { $0 + $1.utf8.count } }
        precondition(byteCount <= bytes.count, "a topic list holds more than was read")
    }

    private static func readVoIPTopics(_ bytes: [UInt8]) {
        let topics = APNsExtensions.voipTopics(fromDER: bytes)
        precondition(topics.allSatisfy { !$0.isEmpty && !$0.contains(",") && !$0.contains(" ") })
        precondition(topics.reduce(0) { $0 + $1.utf8.count } <= bytes.count, "a topic list holds more than was read")
    }
}
