import Cryptography
import Testing

@Suite struct `The authorities a client trusts` {
    @Test func `may be asked for by many at once, and outlive who made them`() async throws {
        let authority = try CertificateAuthority.make(commonName: "authority").certificate
        try await withThrowingTaskGroup(of: TLSContext.self) { group in
            for _ in 0..<8 {
                group.addTask { try .client(trusting: TrustStore(adding: [authority])) }
                group.addTask { try .client() }
            }
            try await group.waitForAll()
        }
    }
}
