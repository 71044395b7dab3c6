package import Cryptography

extension InputFile {
    /// Returns the certificate authorities of a PEM file, together with those of the system.
    ///
    /// - Throws: ``Failure`` that names the file, or ``UnreadableFile``.
    package func authorities() throws -> TrustStore {
        let pem = [UInt8](try contents())
        do {
            return try TrustStore(adding: Certificate.all(inPEM: pem))
        } catch {
            throw Failure("\(name): \(error)")
        }
    }
}
