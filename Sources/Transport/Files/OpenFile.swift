import Glibc

/// An open file, pipe or socket that is read and written by calls that block. It is closed when nobody holds it any
/// more, or by ``close()``.
package final class OpenFile: Sendable {
    /// Why a file could not be opened, read or written, in the system's words: "No such file or directory".
    package struct Failure: Error, Equatable, CustomStringConvertible {
        package let description: String
        /// There is no such file.
        package let isMissing: Bool

        fileprivate init(_ code: CInt) {
            description = SystemCall.text(of: code)
            isMissing = code == ENOENT
        }
    }

    /// Its number. After ``close()`` it may be another file's.
    package let descriptor: CInt
    private let isOpen: Locked<Bool>

    /// Takes over an open descriptor.
    package init(descriptor: CInt) {
        self.descriptor = descriptor
        isOpen = Locked(true)
    }

    deinit { close() }

    /// This process's standard input, of which it holds a copy: closing it leaves the original open.
    package static func standardInput() throws(Failure) -> OpenFile {
        try opened(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0))
    }

    /// Opens a file for reading.
    package static func reading(_ path: String) throws(Failure) -> OpenFile {
        try opened(unsafe open(path, O_RDONLY | O_CLOEXEC))
    }

    /// Makes a file for writing, and empties one that is there.
    package static func writing(_ path: String) throws(Failure) -> OpenFile {
        try opened(unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666))
    }

    private static func opened(_ descriptor: CInt) throws(Failure) -> OpenFile {
        guard descriptor >= 0 else { throw Failure(errno) }
        return OpenFile(descriptor: descriptor)
    }

    /// Closes it. A second time does nothing.
    package func close() {
        isOpen.withLock { isOpen in
            if isOpen { _ = Glibc.close(descriptor) }
            isOpen = false
        }
    }

    // MARK: Reading and writing

    /// Waits for the next bytes, and reads at most so many of them; none at the end.
    package func read(upTo count: Int) throws(Failure) -> [UInt8] {
        while true {
            var problem: CInt?
            let bytes = unsafe [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
                let length = unsafe Glibc.read(descriptor, buffer.baseAddress, count)
                filled = max(0, length)
                if length < 0 { problem = errno }
            }
            guard let problem else { return bytes }
            if problem != EINTR { throw Failure(problem) }
        }
    }

    /// Reads to its end.
    package func readToEnd() throws(Failure) -> [UInt8] {
        var contents: [UInt8] = []
        while true {
            let piece = try read(upTo: Self.pieceBytes)
            if piece.isEmpty { return contents }
            contents += piece
        }
    }

    private static let pieceBytes = 64 * 1024

    /// Writes all of `bytes`.
    package func write(_ bytes: [UInt8]) throws(Failure) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let written = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written >= 0 {
                rest = rest.dropFirst(written)
            } else if errno != EINTR {
                throw Failure(errno)
            }
        }
    }
}
