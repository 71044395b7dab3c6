package import Cryptography
package import QueueCore

extension CredentialScope {
    /// What Apple says of a provider certificate: its marks and topics are extensions under 1.2.840.113635.100.6.3
    /// (read from certificates; Apple documents them nowhere).
    /// - Parameter chosen: where its owner wants it used; empty for wherever it may be.
    package init(_ certificate: Certificate, in chosen: [Environment] = []) {
        let allowed = certificate.allowedEnvironments
        self.init(
            kind: .certificate,
            environments: chosen.isEmpty ? allowed : Stated(chosen, field: "as it was added with --environment"),
            topics: Stated(certificate.topics, field: certificate.topicFields),
            notBefore: certificate.notBefore, notAfter: certificate.notAfter)
    }
}

extension Certificate {
    /// Subjects of certificates that work in production whatever their marks say: Wallet passes, website push and MDM.
    private static let productionSubjects = ["pass.", "web.", "com.apple.mgmt."]

    /// Which fields name its topics.
    fileprivate var topicFields: String {
        let field = apns.topics.isEmpty ? "subject UID" : "extension \(APNsExtensions.topicsOID)"
        return apns.voipTopics.isEmpty ? field : "\(field) and extension \(APNsExtensions.voipTopicsOID)"
    }

    /// Where APNs takes it.
    package var allowedEnvironments: CredentialScope.Stated<[Environment]> {
        let subject = subject.userID ?? ""
        if Self.productionSubjects.contains(where: subject.hasPrefix) {
            return .init([.production], field: "subject UID \(subject)")
        }
        let (sandbox, production) = (APNsExtensions.sandboxOID, APNsExtensions.productionOID)
        return switch (apns.isForSandbox, apns.isForProduction) {
        case (true, true): .init([.production, .sandbox], field: "extensions \(sandbox) and \(production)")
        case (true, false): .init([.sandbox], field: "extension \(sandbox)")
        case (false, true): .init([.production], field: "extension \(production)")
        case (false, false): .init([.production], field: "neither extension \(sandbox) nor \(production)")
        }
    }
}
