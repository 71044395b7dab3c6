import Glibc

/// This process's standard output and standard error; the result of each write is checked.
package enum StandardStream: Sendable {
    case output, errors

    private var descriptor: CInt { self == .output ? STDOUT_FILENO : STDERR_FILENO }

    /// Why a write failed.
    package enum Failure: Error, Equatable {
        /// The reader went away, as `head` does.
        case brokenPipe
        /// The system's message, such as "No space left on device".
        case failed(String)
    }

    /// Writes all of a text.
    package func write(_ text: String) throws(Failure) {
        var rest = ArraySlice(Array(text.utf8))
        while !rest.isEmpty {
            let written = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if written >= 0 {
                rest.removeFirst(written)
            } else if errno != EINTR {
                throw Self.failure(errno)
            }
        }
    }

    /// Opens `/dev/null` for each of standard input, output and error that this process was started without (`>&-`).
    /// Otherwise the next files that it opens would get their numbers, and receive the output for people. Standard
    /// input is opened for writing and the others for reading, so that reading and writing fail as they would without
    /// them.
    package static func fillClosed() {
        for number in STDIN_FILENO...STDERR_FILENO where fcntl(number, F_GETFD) == -1 {
            _ = unsafe open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    /// Closes the stream. A file system may report only now that a write failed (close(2)).
    package func close() throws(Failure) {
        guard Glibc.close(descriptor) == 0 || errno == EINTR || errno == EBADF else { throw Self.failure(errno) }
    }

    private static func failure(_ code: CInt) -> Failure {
        code == EPIPE ? .brokenPipe : .failed(SystemCall.text(of: code))
    }

    /// The number of columns of the terminal that it leads to; nil if it leads elsewhere.
    package var columns: Int? {
        var size = winsize()
        guard unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// Whether systemd's journal reads the stream. If so, it has the device and the inode of the journal's socket that
    /// the environment names (`JOURNAL_STREAM` in systemd.exec(5)). The variable alone does not tell: a program that a
    /// service starts inherits it even if its output goes elsewhere.
    package func isReadByJournal(_ environment: [String: String]) -> Bool {
        var status = stat()
        guard let stream = environment["JOURNAL_STREAM"], unsafe fstat(descriptor, &status) == 0 else { return false }
        return stream == "\(status.st_dev):\(status.st_ino)"
    }

    /// Makes a broken pipe an error of the write only. Event loops block SIGPIPE in their own threads, but other
    /// threads also write the log, and the signal would end the program in the middle of its work.
    package static func outliveReaders() {
        signal(SIGPIPE, SIG_IGN)
    }

    /// Ends this process as a broken pipe ends other programs: by SIGPIPE and without a message. Event loops block that
    /// signal in their threads.
    package static func endByBrokenPipe() -> Never {
        signal(SIGPIPE, SIG_DFL)
        kill(getpid(), SIGPIPE)
        sleep(1)
        _exit(128 + SIGPIPE)
    }
}
