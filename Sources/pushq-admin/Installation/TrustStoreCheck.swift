import Cryptography
import FoundationEssentials
import PostgresStore

/// Checks whether this machine knows certificate authorities. Without them, no connection to APNs is possible.
enum TrustStoreCheck {
    /// - Parameter environment: `SSL_CERT_FILE` and `SSL_CERT_DIR` replace OpenSSL's default places.
    static func findings(_ environment: [String: String]) -> [HealthFinding] {
        let places = TrustStore.systemPlaces
        let (file, folder) = (
            environment["SSL_CERT_FILE"] ?? places.file, environment["SSL_CERT_DIR"] ?? places.folder
        )
        // Either a bundle with certificates, or a folder with one per file, named by a digest: 5ad8a5d6.0
        // (c_rehash(1)).
        let bundle = (try? String(contentsOfFile: file, encoding: .utf8)) ?? ""
        let names = folder.split(separator: ":").flatMap { path in
            (try? FileManager.default.contentsOfDirectory(atPath: String(path))) ?? []
        }
        guard !bundle.contains("BEGIN CERTIFICATE"), !names.contains(where: { $0.hasSuffix(".0") }) else { return [] }
        return [
            HealthFinding(
                .error, "trust store", "no certificate authority is found in \(file) or \(folder)",
                .command("apt-get install ca-certificates"))
        ]
    }
}
