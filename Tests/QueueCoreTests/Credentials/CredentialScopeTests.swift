import Foundation
import QueueCore
import Testing

@Suite struct `A credential for a queue` {
    private static let now = Date(timeIntervalSince1970: 1_800_000_000)
    private static let queue = QueueName(tenant: "acme", app: "com.acme", environment: .production)

    /// A certificate that is valid for the queue, except for what a test changes.
    private static func certificate(
        environments: [Environment] = [.production], topics: [String] = ["com.acme"], from: Double = -1,
        until: Double = 1
    ) -> CredentialScope {
        CredentialScope(
            kind: .certificate, environments: .init(environments, field: "field 1"),
            topics: .init(topics, field: "field 2"), notBefore: now + from, notAfter: now + until)
    }

    private static let token = CredentialScope(kind: .token, environments: .init([.production], field: "field 1"))

    @Test(arguments: [
        token, certificate(), certificate(environments: [.sandbox, .production]),
        certificate(topics: ["com.other", "com.acme", "com.acme.voip"]), certificate(topics: ["com.acme.voip"]),
        certificate(topics: ["com.acme.push-type.liveactivity"]), certificate(from: 0),
    ])
    func `is good`(scope: CredentialScope) {
        #expect(scope.problem(for: Self.queue, at: Self.now) == nil)
    }

    @Test(arguments: [
        (
            certificate(environments: [.sandbox]),
            "the certificate is for sandbox only (field 1), the queue acme/com.acme/production needs production"
        ),
        (
            CredentialScope(kind: .token, environments: .init([.sandbox], field: "--environment")),
            "the signing key is for sandbox only (--environment), the queue acme/com.acme/production needs production"
        ),
        (
            certificate(topics: ["com.other", "com.acme2"]),
            "the certificate is for com.other, com.acme2 (field 2), the queue acme/com.acme/production needs com.acme"
        ),
        // A topic that looks like it has a suffix, but has none.
        (
            certificate(topics: ["com.acme.shop"]),
            "the certificate is for com.acme.shop (field 2), the queue acme/com.acme/production needs com.acme"
        ),
        (certificate(topics: []), "the certificate is not one for APNs: it names no topic (field 2)"),
        (certificate(until: 0), "the certificate expired at 2027-01-15T08:00:00Z (notAfter)"),
        (certificate(from: 1), "the certificate is not valid before 2027-01-15T08:00:01Z (notBefore)"),
    ])
    func `is refused by the field that says so`(scope: CredentialScope, problem: String) {
        #expect(scope.problem(for: Self.queue, at: Self.now) == problem)
    }
}
