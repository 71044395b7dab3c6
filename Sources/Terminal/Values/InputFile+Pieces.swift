package import PostgresStore
package import QueueCore
import Transport

extension InputFile {
    /// Pieces of this size cost few system calls and stay in the processor's cache.
    private static let pieceBytes = 256 * 1024

    /// The file as a list of devices, read piece by piece.
    package func devices() throws(UnreadableFile) -> DeviceFile {
        let file = try open()
        return DeviceFile(name: name) {
            let piece = try file.read(upTo: Self.pieceBytes)
            return piece.isEmpty ? nil : piece
        }
    }

    /// The tokens of a file that has one a line.
    ///
    /// - Throws: ``UnreadableFile``, or ``Failure`` with the first line that is none. It does not repeat the line.
    package func tokens() throws -> [DeviceToken] {
        let lines = String(decoding: try contents(), as: UTF8.self).split(
            omittingEmptySubsequences: false, whereSeparator: \.isNewline)
        return try lines.enumerated().filter { !$0.element.allSatisfy(\.isWhitespace) }.map { index, line in
            do throws(DeviceTokenError) {
                return try DeviceToken(hex: String(line))
            } catch {
                throw Failure("\(name):\(index + 1): \(error)")
            }
        }
    }
}
