import Cryptography
import Foundation
import QueueCore
import Testing

@testable import APNs

@Suite struct `What a certificate says of itself` {
    private let authority: CertificateAuthority
    private let production = "1.2.840.113635.100.6.3.2"
    private let sandbox = "1.2.840.113635.100.6.3.1"

    init() throws {
        authority = try .make(commonName: "Test authority")
    }

    private func scope(
        of subject: String, _ apns: APNsExtensions, in chosen: [Environment] = []
    ) throws -> CredentialScope {
        CredentialScope(try authority.issueClient(.init(userID: subject), apns: apns).certificate, in: chosen)
    }

    @Test func `is where it works, by its marks`() throws {
        let both = try scope(of: "com.acme", .init(isForSandbox: true, isForProduction: true))
        #expect(both.environments == .init([.production, .sandbox], field: "extensions \(sandbox) and \(production)"))
        let one = try scope(of: "com.acme", .init(isForSandbox: true))
        #expect(one.environments == .init([.sandbox], field: "extension \(sandbox)"))
        let other = try scope(of: "com.acme", .init(isForProduction: true))
        #expect(other.environments == .init([.production], field: "extension \(production)"))
        let none = try scope(of: "com.acme", .init())
        #expect(none.environments == .init([.production], field: "neither extension \(sandbox) nor \(production)"))
    }

    @Test(arguments: ["pass.com.acme", "web.com.acme", "com.apple.mgmt.External.1234"])
    func `is production whatever the marks, for passes, website push and MDM`(subject: String) throws {
        let scope = try scope(of: subject, .init(isForSandbox: true, isForProduction: true))
        #expect(scope.environments == .init([.production], field: "subject UID \(subject)"))
        let queue = QueueName(tenant: "acme", app: subject, environment: .sandbox)
        #expect(
            scope.problem(for: queue, at: .now)
                == "the certificate is for production only (subject UID \(subject)), the queue \(queue) needs sandbox")
    }

    @Test func `is which topics, by its list or else by its subject`() throws {
        let kinds = [APNsExtensions.Topic(name: "com.acme.voip", kinds: ["voip"])]
        let listed = try scope(of: "com.acme", .init(topics: kinds))
        #expect(listed.topics == .init(["com.acme.voip"], field: "extension 1.2.840.113635.100.6.3.6"))
        #expect(try scope(of: "com.acme", .init()).topics == .init(["com.acme"], field: "subject UID"))
    }

    @Test func `is which topics, also by the list for VoIP of older certificates`() throws {
        let old = try scope(of: "com.acme.voip", .init(voipTopics: ["com.acme", "com.acme.voip"]))
        #expect(
            old.topics
                == .init(["com.acme.voip", "com.acme"], field: "subject UID and extension 1.2.840.113635.100.6.3.4"))
        let queue = QueueName(tenant: "acme", app: "com.acme", environment: .production)
        #expect(old.problem(for: queue, at: .now) == nil)

        let newer = APNsExtensions(
            topics: [.init(name: "com.acme", kinds: ["app"])], voipTopics: ["com.acme", "com.acme.voip"])
        #expect(
            try scope(of: "com.acme", newer).topics
                == .init(
                    ["com.acme", "com.acme.voip"],
                    field: "extension 1.2.840.113635.100.6.3.6 and extension 1.2.840.113635.100.6.3.4"))
    }

    @Test func `is narrowed by its owner's choice`() throws {
        let scope = try scope(of: "com.acme", .init(isForSandbox: true, isForProduction: true), in: [.sandbox])
        #expect(scope.environments == .init([.sandbox], field: "as it was added with --environment"))
    }

    @Test func `is from when to when it holds`() throws {
        let validity = Date(timeIntervalSince1970: 1_700_000_000)..<Date(timeIntervalSince1970: 1_800_000_000)
        let identity = try authority.issueClient(.init(userID: "com.acme"), validity: validity)
        let scope = CredentialScope(identity.certificate)
        #expect(scope.problem(at: validity.lowerBound) == nil)
        #expect(scope.problem(at: validity.lowerBound - 1)?.contains("is not valid before") == true)
        #expect(scope.problem(at: validity.upperBound)?.contains("expired at") == true)
    }

    @Test func `is whether it is for clients`() throws {
        #expect(try authority.issueClient(.init(userID: "com.acme")).certificate.isForClients)
        #expect(try !authority.issueServer(names: ["localhost"]).certificate.isForClients)
    }
}
