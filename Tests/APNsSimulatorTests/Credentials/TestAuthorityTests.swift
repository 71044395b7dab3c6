import APNsSimulator
import Cryptography
import Foundation
import Testing

@Suite struct `The folder of certificates and keys` {
    @Test func `is made once and used again`() throws {
        let folder = SimulatorFolder()
        let made = try TestAuthority(folder: folder.path)
        let client = try made.clientCertificate(topic: "com.example.App")
        let again = try TestAuthority(folder: folder.path)
        #expect(again.certificate.sha256Fingerprint == made.certificate.sha256Fingerprint)
        #expect(try again.signingKey.pem() == made.signingKey.pem())
        let same = try again.clientCertificate(topic: "com.example.App")
        #expect(same.identity.certificate.sha256Fingerprint == client.identity.certificate.sha256Fingerprint)
        #expect(client.file == folder.path + "/client-com.example.App.pem")
        folder.remove()
    }

    @Test func `has certificates in the form of Apple's`() throws {
        let folder = SimulatorFolder()
        let authority = try TestAuthority(folder: folder.path)
        let certificate = try authority.clientCertificate(topic: "com.example.App", isForSandbox: false).identity
            .certificate
        #expect(certificate.subject.userID == "com.example.App")
        #expect(certificate.subject.commonName == "Apple Push Services: com.example.App")
        #expect(certificate.subject.organizationalUnit == "PUSHQTEAM1")
        #expect(certificate.apns.isForProduction && !certificate.apns.isForSandbox)
        #expect(certificate.topics.prefix(2) == ["com.example.App", "com.example.App.voip"])
        folder.remove()
    }

    @Test func `keeps its secrets from others`() throws {
        let folder = SimulatorFolder()
        let authority = try TestAuthority(folder: folder.path)
        let files = [authority.signingKeyFile, folder.path + "/ca-key.pem", folder.path + "/server.pem"]
        for file in files {
            let mode = try FileManager.default.attributesOfItem(atPath: file)[.posixPermissions] as? Int
            #expect(mode == 0o600, "\(file)")
        }
        folder.remove()
    }

    @Test func `has a server's certificate for the names that clients use, and another one for a name more`() throws {
        let folder = SimulatorFolder()
        func server(_ names: String...) throws -> Certificate {
            _ = try TestAuthority(folder: folder.path, serverNames: names)
            return try TLSIdentity(pem: Array(Data(contentsOf: URL(filePath: folder.path + "/server.pem")))).certificate
        }
        let local = try server()
        for name in ["localhost", "127.0.0.1", "::1"] { #expect(local.isIssued(to: name), "\(name)") }
        #expect(!local.isIssued(to: "apns.test") && !local.isIssued(to: "192.0.2.1"))
        let wider = try server("apns.test", "192.0.2.1")
        for name in ["localhost", "apns.test", "192.0.2.1"] { #expect(wider.isIssued(to: name), "\(name)") }
        #expect(try server("apns.test").sha256Fingerprint == wider.sha256Fingerprint)
        folder.remove()
    }

    @Test func `replaces what an earlier authority has issued`() throws {
        let folder = SimulatorFolder()
        let client = try TestAuthority(folder: folder.path).clientCertificate(topic: "com.example.App")
        try FileManager.default.removeItem(atPath: folder.path + "/ca.pem")
        let again = try TestAuthority(folder: folder.path).clientCertificate(topic: "com.example.App")
        #expect(again.identity.certificate.sha256Fingerprint != client.identity.certificate.sha256Fingerprint)
        folder.remove()
    }

    @Test func `says in one line what is wrong with a file`() throws {
        let folder = SimulatorFolder()
        let authority = try TestAuthority(folder: folder.path)
        try Data("nonsense".utf8).write(to: URL(filePath: authority.signingKeyFile))
        let error = #expect(throws: SimulatorError.self) { try TestAuthority(folder: folder.path) }
        let line = try #require(error?.description)
        #expect(line.hasPrefix(authority.signingKeyFile + ": "))
        #expect(!line.contains("\n"))
        folder.remove()
        let nowhere = #expect(throws: SimulatorError.self) { try TestAuthority(folder: "/proc/nowhere") }
        #expect(nowhere?.description.hasPrefix("/proc/nowhere: the folder cannot be made") ?? false)
    }
}
