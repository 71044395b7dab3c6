import Foundation
package import PostgresStore

extension InputFile {
    /// Pieces of this size cost few system calls and stay in the processor's cache.
    private static let pieceBytes = 256 * 1024

    /// The file as a list of devices, read piece by piece.
    package func devices() throws(UnreadableFile) -> DeviceFile {
        let handle = try open()
        return DeviceFile(name: name) {
            try handle.read(upToCount: Self.pieceBytes).map { [UInt8]($0) }
        }
    }
}
