package import Cryptography

extension InputFile {
    /// Returns the certificate authorities of a PEM file, together with those of the system.
    ///
    /// A bundle of all authorities of the world has less than one megabyte, with comments a few.
    ///
    /// - Throws: ``Failure`` that names the file, or ``UnreadableFile``.
    package func authorities() throws -> TrustStore {
        let pem = [UInt8](try contents(upTo: 16_000_000))
        do {
            return try TrustStore(adding: Certificate.all(inPEM: pem))
        } catch {
            throw Failure("\(name): \(error)")
        }
    }
}
