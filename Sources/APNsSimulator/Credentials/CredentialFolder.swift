import Cryptography
import FoundationEssentials

/// Reads and writes the files of a ``TestAuthority``.
struct CredentialFolder {
    let path: String

    func path(of name: String) -> String { path + "/" + name }

    func make() throws(SimulatorError) {
        do {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        } catch {
            throw .file(
                path: path, problem: "the folder cannot be made (\(Self.reason(error))); name one you may write to")
        }
    }

    /// Returns the content of a file; nil if there is none.
    func read(_ name: String) throws(SimulatorError) -> [UInt8]? {
        guard FileManager.default.fileExists(atPath: path(of: name)) else { return nil }
        do {
            return Array(try Data(contentsOf: URL(filePath: path(of: name))))
        } catch {
            throw .file(path: path(of: name), problem: "cannot be read (\(Self.reason(error))); check its permissions")
        }
    }

    /// Writes a file whole or not at all. Only its owner may read a secret file.
    func write(_ text: String, to name: String, isSecret: Bool = false) throws(SimulatorError) {
        let attributes: [FileAttributeKey: Any] = [.posixPermissions: isSecret ? 0o600 : 0o644]
        let draft = path(of: "." + name + ".\(UInt32.random(in: .min ... .max))")
        do {
            guard FileManager.default.createFile(atPath: draft, contents: Data(text.utf8), attributes: attributes)
            else {
                throw CocoaError(.fileWriteNoPermission)
            }
            try? FileManager.default.removeItem(atPath: path(of: name))
            try FileManager.default.moveItem(atPath: draft, toPath: path(of: name))
        } catch {
            throw .file(
                path: path(of: name),
                problem: "cannot be written (\(Self.reason(error))); name a folder you may write to")
        }
    }

    /// Removes the files whose names `shouldGo` accepts.
    func removeAll(where shouldGo: (String) -> Bool) throws(SimulatorError) {
        do {
            for name in try FileManager.default.contentsOfDirectory(atPath: path) where shouldGo(name) {
                try FileManager.default.removeItem(atPath: self.path(of: name))
            }
        } catch {
            throw .file(path: path, problem: "cannot be cleared (\(Self.reason(error))); check its permissions")
        }
    }

    /// Returns the certificate and key in a file. Issues and writes a new one if the file is missing, or if the
    /// certificate cannot be used any more.
    func identity(
        _ name: String, isUsable: (Certificate) -> Bool = { $0.notAfter > .now },
        issue: () throws(CryptographyError) -> TLSIdentity
    ) throws(SimulatorError) -> TLSIdentity {
        let pem = try read(name)
        do throws(CryptographyError) {
            if let pem {
                let identity = try TLSIdentity(pem: pem)
                if isUsable(identity.certificate) { return identity }
            }
        } catch {
            throw .credential(path: path(of: name), error)
        }
        let identity: TLSIdentity
        let text: String
        do throws(CryptographyError) {
            identity = try issue()
            text = try identity.pem()
        } catch {
            throw .credential(path: path(of: name), error)
        }
        try write(text, to: name, isSecret: true)
        return identity
    }

    /// Foundation's reason for a failure, without a path.
    private static func reason(_ error: any Error) -> String {
        switch (error as? CocoaError)?.code {
        case .fileReadNoPermission, .fileWriteNoPermission: "permission denied"
        case .fileNoSuchFile, .fileReadNoSuchFile: "there is no such folder"
        case .fileWriteFileExists: "it is a file"
        case .fileWriteOutOfSpace: "the disk is full"
        case .fileWriteVolumeReadOnly: "the disk is read-only"
        case let code?: "error \(code.rawValue)"
        case nil: "\(error)"
        }
    }
}
