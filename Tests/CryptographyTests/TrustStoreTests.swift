import Cryptography
import Testing

@Suite struct `The authorities a client trusts` {
    /// Each asks for another store than the one before, so the one in use is dropped from the cache all the time.
    @Test func `belong to their context, whoever asks for others meanwhile`() async throws {
        let authorities = try (0..<4).map { try CertificateAuthority.make(commonName: "authority \($0)").certificate }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for first in 0..<8 {
                group.addTask {
                    for number in 0..<150 {
                        let authority = authorities[(first + number) % authorities.count]
                        _ = try TLSContext.client(additionalAuthorities: [authority])
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
