package import Cryptography
import FoundationEssentials

/// A folder with everything that a client needs to connect: a certificate authority, its certificates, and a signing
/// key. Existing files are used; missing ones are made.
///
///     ca.pem  ca-key.pem         the authority; ca.pem is what a client has to trust
///     server.pem                 the simulator's certificate and key
///     AuthKey_<key ID>.p8        a token-signing key as Apple hands it out
///     client-<topic>.pem         client certificates, made when asked for
package struct TestAuthority: Sendable {
    /// The folder, as it was given.
    package let folder: String
    private let authority: CertificateAuthority
    let server: TLSIdentity
    /// The private half of the signing key.
    package let signingKey: PrivateKey

    /// The ID of the key and of its team; ten characters each, like Apple's.
    package static let keyID = "PUSHQSIM01"
    package static let teamID = "PUSHQTEAM1"

    /// The file with the authority's certificate.
    package var caFile: String { folder + "/ca.pem" }
    /// The `.p8` file.
    package var signingKeyFile: String { folder + "/AuthKey_\(Self.keyID).p8" }
    /// The authority's certificate.
    package var certificate: Certificate { authority.certificate }

    /// The server's certificate is replaced when it is valid for less than this.
    private static let minimumValidity: TimeInterval = 86_400
    private static let localNames = ["localhost", "127.0.0.1", "::1"]

    /// Opens a folder. Makes the folder and its files if they are missing.
    /// - Parameter serverNames: host names and addresses that clients use beside this machine's own. The server's
    ///   certificate is replaced if it lacks one of them.
    package init(folder: String, serverNames: [String] = []) throws(SimulatorError) {
        let files = CredentialFolder(path: folder)
        try files.make()
        self.folder = folder
        let authority = try Self.authority(in: files)
        self.authority = authority
        server = try Self.server(in: files, authority, names: Self.localNames + serverNames)
        signingKey = try Self.signingKey(in: files)
    }

    /// The public half of the signing key, for checking tokens.
    var verificationKey: SigningKey {
        get throws(SimulatorError) {
            do {
                return SigningKey(keyID: Self.keyID, teamID: Self.teamID, publicKey: try signingKey.publicKey())
            } catch {
                throw .credential(path: signingKeyFile, error)
            }
        }
    }

    // MARK: Client certificates

    /// A client certificate and its file.
    package struct ClientCertificate: Sendable {
        package let identity: TLSIdentity
        /// PEM with certificate and key.
        package let file: String
    }

    /// Returns a push certificate for an app, like Apple's: UID and first topic are the bundle ID, and the other topics
    /// add the suffixes.
    ///
    /// - Parameters:
    ///   - isForSandbox, isForProduction: the marks of the certificate.
    package func clientCertificate(
        topic: String, isForSandbox: Bool = true, isForProduction: Bool = true
    ) throws(SimulatorError) -> ClientCertificate {
        let marks = isForSandbox == isForProduction ? "" : isForSandbox ? "-sandbox" : "-production"
        let name = "client-\(topic)\(marks).pem"
        let kinds = [
            ("", "app"), (".voip", "voip"), (".complication", "complication"), (".voip-ptt", "ptt"),
            (".pushkit.fileprovider", "fileprovider"),
        ]
        let extensions = APNsExtensions(
            isForSandbox: isForSandbox, isForProduction: isForProduction,
            topics: kinds.map { APNsExtensions.Topic(name: topic + $0.0, kinds: [$0.1]) })
        let subject = DistinguishedName(
            userID: topic, commonName: "Apple Push Services: \(topic)", organizationalUnit: Self.teamID)
        let files = CredentialFolder(path: folder)
        let identity = try files.identity(name) { () throws(CryptographyError) in
            try authority.issueClient(subject, apns: extensions)
        }
        return ClientCertificate(identity: identity, file: files.path(of: name))
    }

    // MARK: What is in the folder

    private static func authority(in files: CredentialFolder) throws(SimulatorError) -> CertificateAuthority {
        if let pem = try files.read("ca.pem"), let keyPEM = try files.read("ca-key.pem") {
            do {
                return CertificateAuthority(
                    certificate: try Certificate.all(inPEM: pem)[0], privateKey: try PrivateKey(pem: keyPEM))
            } catch {
                throw .credential(path: files.path(of: "ca.pem"), error)
            }
        }
        do {
            let authority = try CertificateAuthority.make(commonName: "pushq APNs simulator CA")
            // Certificates of an earlier authority are useless with the new one.
            try files.removeAll { $0 == "server.pem" || $0.hasPrefix("client-") }
            try files.write(try authority.certificate.pem(), to: "ca.pem")
            try files.write(try authority.privateKey.pem(), to: "ca-key.pem", isSecret: true)
            return authority
        } catch let error as CryptographyError {
            throw .credential(path: files.path(of: "ca.pem"), error)
        } catch let error as SimulatorError {
            throw error
        } catch {
            throw .file(path: files.path(of: "ca.pem"), problem: "\(error)")
        }
    }

    private static func server(
        in files: CredentialFolder, _ authority: CertificateAuthority, names: [String]
    ) throws(SimulatorError) -> TLSIdentity {
        try files.identity(
            "server.pem",
            isUsable: { server in
                server.notAfter > Date(timeIntervalSinceNow: minimumValidity) && names.allSatisfy(server.isIssued(to:))
            },
            issue: { () throws(CryptographyError) in try authority.issueServer(names: names) })
    }

    private static func signingKey(in files: CredentialFolder) throws(SimulatorError) -> PrivateKey {
        let name = "AuthKey_\(keyID).p8"
        do {
            if let pem = try files.read(name) { return try PrivateKey(signingKeyPEM: pem) }
            let key = try PrivateKey.makeP256()
            try files.write(try key.pem(), to: name, isSecret: true)
            return key
        } catch let error as CryptographyError {
            throw .credential(path: files.path(of: name), error)
        } catch let error as SimulatorError {
            throw error
        } catch {
            throw .file(path: files.path(of: name), problem: "\(error)")
        }
    }
}
