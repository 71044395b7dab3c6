import Cryptography
import Testing

@Suite struct `A TLS alert` {
    /// RFC 8446 §6.2, RFC 5246 §7.2.
    @Test(arguments: [
        (10, false), (20, false), (40, false), (42, true), (43, true), (44, true), (45, true), (46, true), (47, false),
        (48, true), (49, true), (50, false), (70, false), (71, false), (80, false), (112, false), (116, true),
        (120, false),
    ])
    func `is about the certificate of this side or not`(number: Int, expected: Bool) {
        #expect(TLSAlert(number: number, text: "").isAboutCertificate == expected)
    }
}
