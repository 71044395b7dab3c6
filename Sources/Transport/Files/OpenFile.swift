import Glibc

/// An open file, pipe or socket, with blocking reads and writes. The last reference or ``close()`` closes it.
package final class OpenFile: Sendable {
    /// Why a file could not be opened, read or written, with the system's message, such as "No such file or directory".
    package struct Failure: Error, Equatable, CustomStringConvertible {
        package let description: String
        /// Whether there is no such file.
        package let isMissing: Bool
        /// Whether it is not open for reading, or not open at all.
        package let isClosed: Bool

        fileprivate init(_ code: CInt) {
            description = SystemCall.text(of: code)
            isMissing = code == ENOENT
            isClosed = code == EBADF
        }
    }

    /// The file descriptor. After ``close()``, another file may get the same number.
    package let descriptor: CInt
    private let isOpen: Locked<Bool>

    /// Takes over an open descriptor.
    package init(descriptor: CInt) {
        self.descriptor = descriptor
        isOpen = Locked(true)
    }

    deinit { close() }

    /// Returns a copy of this process's standard input. Closing the copy leaves the original open.
    package static func standardInput() throws(Failure) -> OpenFile {
        try opened(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0))
    }

    /// Opens a file for reading.
    package static func reading(_ path: String) throws(Failure) -> OpenFile {
        try opened(unsafe open(path, O_RDONLY | O_CLOEXEC))
    }

    /// Creates a file for writing, or empties an existing one.
    package static func writing(_ path: String) throws(Failure) -> OpenFile {
        try opened(unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o666))
    }

    private static func opened(_ descriptor: CInt) throws(Failure) -> OpenFile {
        guard descriptor >= 0 else { throw Failure(errno) }
        return OpenFile(descriptor: descriptor)
    }

    /// Closes the file. A second call does nothing.
    package func close() {
        isOpen.withLock { isOpen in
            if isOpen { _ = Glibc.close(descriptor) }
            isOpen = false
        }
    }

    // MARK: Reading and writing

    /// Waits for bytes and returns at most `count` of them; none at the end of the file.
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

    /// Reads to the end of the file.
    package func readToEnd() throws(Failure) -> [UInt8] {
        var contents: [UInt8] = []
        while true {
            let piece = try read(upTo: Self.pieceBytes)
            if piece.isEmpty { return contents }
            contents += piece
        }
    }

    /// Reads to the end of the file. Returns nil as soon as it has more than `most` bytes, and reads no further: a
    /// device or a pipe may have no end.
    package func readToEnd(upTo most: Int) throws(Failure) -> [UInt8]? {
        var contents: [UInt8] = []
        while contents.count <= most {
            let piece = try read(upTo: Self.pieceBytes)
            if piece.isEmpty { return contents }
            contents += piece
        }
        return nil
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
