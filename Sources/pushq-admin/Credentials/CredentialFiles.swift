import APNs
import Cryptography
import FoundationEssentials
import PostgresStore
import QueueCore
import Terminal
import Transport

/// The files that contain a credential: a signing key, a certificate with its key, or both in one PKCS#12 file.
struct CredentialFiles: ParameterGroup {
    @Option("A signing key as downloaded from Apple: AuthKey_KEYID.p8.", "FILE") var p8: InputFile?
    @Option("The key's ID; by default the one in the file's name.", "ID") var keyId: String?
    @Option("The team that the key belongs to.", "ID") var teamId: String?
    @Option("A provider certificate in PEM.", "FILE") var certificate: InputFile?
    @Option("Its private key in PEM, if it is in a separate file.", "FILE") var key: InputFile?
    @Option("A certificate with its private key in PKCS#12 (.p12).", "FILE") var pkcs12: InputFile?
    @Option("A file with the password of --key or --pkcs12; - is standard input.", "FILE") var passwordFile: InputFile?
    @Option("The environment in which it may be used; by default what its certificate says, or both.", "NAME")
    var environment: [Environment]

    /// Warns about files that other users can read, because the operator may delete them after adding the credential.
    func warn(on console: Console) {
        // Without --key, the private key is in the file of the certificate.
        for file in [p8, key ?? certificate, pkcs12, passwordFile].compactMap(\.self) {
            if let warning = SecretFile(file.path).warning { console.warn(warning) }
        }
    }

    /// Reads and checks the files. First forbids core dumps of this process, because they could contain the files.
    func read() throws -> ParsedCredential {
        CoreDumps.forbid()
        return try readFiles()
    }

    private func readFiles() throws -> ParsedCredential {
        switch (p8, certificate, pkcs12) {
        case (let p8?, nil, nil): try readSigningKey(p8)
        case (nil, let certificate?, nil): try readCertificate(certificate)
        case (nil, nil, let pkcs12?): try readPKCS12(pkcs12)
        default: throw UsageError("give one of --p8, --certificate and --pkcs12")
        }
    }

    private func readSigningKey(_ file: InputFile) throws -> ParsedCredential {
        // First, because a file that is not the right one is named so that its ID is not found, either.
        let contents = try file.contents()
        let key = try naming(file) { try PrivateKey(signingKeyPEM: contents) }
        guard let keyID = keyId ?? Self.keyID(inNameOf: file) else { throw UsageError("--key-id ID is missing") }
        guard let teamID = teamId else { throw UsageError("--team-id ID is missing") }
        for (name, text) in [("--key-id", keyID), ("--team-id", teamID)] where !Self.isAppleID(text) {
            throw UsageError("\(name) is not ten capital letters and digits, as Apple's are")
        }
        let environments = environment.isEmpty ? Environment.allCases : environment
        return ParsedCredential(
            kind: .token(teamID: teamID, keyID: keyID), secret: Array(try key.pem().utf8),
            scope: CredentialScope(kind: .token, environments: .init(environments, field: "--environment")))
    }

    private func readCertificate(_ file: InputFile) throws -> ParsedCredential {
        // Either may be standard input, which can be read only once.
        let pem = try file.contents()
        let keyFile = key ?? file
        let keyPEM = try key?.contents() ?? pem
        if key != nil, !Self.holdsCertificate(pem), Self.holdsCertificate(keyPEM) {
            throw UsageError(
                "--certificate \(file.name) holds no certificate, and --key \(keyFile.name) does: exchange them")
        }
        let certificates = try naming(file) { try Certificate.all(inPEM: pem) }
        let password = try password()
        return try parsed(
            naming(keyFile) {
                try TLSIdentity(
                    certificate: certificates[0], privateKey: PrivateKey(pem: keyPEM, password: password),
                    chain: Array(certificates.dropFirst()))
            }, from: file)
    }

    private static func holdsCertificate(_ pem: [UInt8]) -> Bool { (try? Certificate.all(inPEM: pem)) != nil }

    private func readPKCS12(_ file: InputFile) throws -> ParsedCredential {
        let (contents, password) = (try file.contents(), try password())
        return try parsed(naming(file) { try TLSIdentity(pkcs12: contents, password: password) }, from: file)
    }

    private func parsed(_ identity: TLSIdentity, from file: InputFile) throws -> ParsedCredential {
        let certificate = identity.certificate
        guard certificate.isForClients else {
            throw Failure("\(file.name): the certificate is not for clients of TLS (extended key usage)")
        }
        let allowed = certificate.allowedEnvironments
        if let other = environment.first(where: { !allowed.fact.contains($0) }) {
            throw Failure("\(file.name): the certificate is not for \(other.rawValue) (\(allowed.field))")
        }
        return ParsedCredential(
            kind: .certificate(
                topics: certificate.topics, fingerprint: certificate.sha256Fingerprint, notAfter: certificate.notAfter),
            secret: Array(try identity.pem().utf8), scope: CredentialScope(certificate, in: environment))
    }

    /// Adds the file's name to an error.
    private func naming<Value>(_ file: InputFile, _ read: () throws -> Value) throws -> Value {
        do {
            return try read()
        } catch let error as CryptographyError {
            throw Failure("\(file.name): \(words(for: error))")
        }
    }

    /// What went wrong, with the option that helps.
    private func words(for error: CryptographyError) -> String {
        switch error {
        case .unreadable("private key", PrivateKey.needsPassword):
            "the private key is encrypted; give its password with --password-file FILE"
        case .unreadable("private key", PrivateKey.isMissing) where certificate != nil && key == nil:
            "there is no private key beside the certificate; give the file that it is in with --key FILE"
        case .wrongPassword("PKCS#12 file") where passwordFile == nil:
            "the file has a password; give it with --password-file FILE"
        default: error.description
        }
    }

    private func password() throws -> String? {
        try passwordFile.map { file in
            String(decoding: try file.contents(), as: UTF8.self).trimmingLineEnds()
        }
    }

    /// Apple puts the key's ID into the name of the file: `AuthKey_ABC123DEFG.p8`.
    private static func keyID(inNameOf file: InputFile) -> String? {
        let name = URL(fileURLWithPath: file.path).deletingPathExtension().lastPathComponent
        let parts = name.split(separator: "_")
        return parts.count == 2 && parts[0] == "AuthKey" && isAppleID(String(parts[1])) ? String(parts[1]) : nil
    }

    private static func isAppleID(_ text: String) -> Bool {
        text.utf8.count == 10 && text.utf8.allSatisfy { (48...57).contains($0) || (65...90).contains($0) }
    }
}

/// A credential that was read and is valid, but is not sealed yet.
struct ParsedCredential: Sendable {
    let kind: NewCredential.Kind
    /// PEM. It is secret, and must only be put into a sealed box.
    let secret: [UInt8]
    let scope: CredentialScope

    /// Seals the credential for the database row with this id.
    func sealed(under masterKeys: MasterKeys, for id: CredentialID) throws -> NewCredential {
        NewCredential(
            kind: kind, environments: scope.environments.fact.map(\.rawValue),
            sealed: try masterKeys.seal(secret, for: id.secretOwner))
    }
}

extension CredentialScope {
    /// Throws what prevents the credential `name` from working for one of `queues`, or for any queue.
    /// - Parameter now: the database's time.
    func check(_ name: String, for queues: [QueueName] = [], at now: Date) throws {
        guard let problem = problem(at: now) ?? queues.lazy.compactMap({ problem(for: $0, at: now) }).first else {
            return
        }
        throw Failure("credential \(name): \(problem)")
    }
}
