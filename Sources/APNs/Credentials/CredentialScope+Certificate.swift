package import Cryptography
package import QueueCore

extension CredentialScope {
    /// The scope of a provider certificate. Apple marks its environments and topics in extensions under
    /// 1.2.840.113635.100.6.3 (found in certificates; Apple does not document them).
    /// - Parameter chosen: the environments in which its owner wants it used; empty for all that it is valid for.
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
    /// Prefixes of the subjects of certificates that work in production, whatever their extensions say: Wallet passes,
    /// website push and MDM.
    private static let productionSubjects = ["pass.", "web.", "com.apple.mgmt."]

    /// The fields that name its topics.
    fileprivate var topicFields: String {
        let field = apns.topics.isEmpty ? "subject UID" : "extension \(APNsExtensions.topicsOID)"
        return apns.voipTopics.isEmpty ? field : "\(field) and extension \(APNsExtensions.voipTopicsOID)"
    }

    /// The environments in which APNs accepts the certificate.
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
