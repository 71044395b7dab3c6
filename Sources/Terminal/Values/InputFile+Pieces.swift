package import PostgresStore
package import QueueCore
import Transport

extension InputFile {
    /// The size of a piece. It costs few system calls and stays in the processor's cache.
    private static let pieceBytes = 256 * 1024

    /// Opens the file as a list of devices, which is read piece by piece.
    package func devices() throws(UnreadableFile) -> DeviceFile {
        let (file, path) = (try open(), path)
        return DeviceFile(name: name) {
            do throws(OpenFile.Failure) {
                let piece = try file.read(upTo: Self.pieceBytes)
                return piece.isEmpty ? nil : piece
            } catch {
                throw UnreadableFile(path: path, error)
            }
        }
    }

    /// Returns the tokens of a small file of devices.
    ///
    /// - Throws: ``UnreadableFile``, or ``DeviceFileError`` with the first line that is wrong. It does not repeat the
    ///   line.
    package func tokens() throws -> [DeviceToken] {
        var reader = DeviceFileReader(file: name, for: .sending, keepsTokens: true)
        var rows = CopyRows()
        let file = try devices()
        while let piece = try file.next() {
            try reader.read(piece, into: &rows)
            _ = rows.take()
        }
        try reader.finish(into: &rows)
        return reader.tokens
    }
}
