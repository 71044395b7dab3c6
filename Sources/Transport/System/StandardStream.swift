import Glibc

/// This process's standard output and standard error; the result of each write is checked.
package enum StandardStream: Sendable {
    case output, errors

    private var descriptor: CInt { self == .output ? STDOUT_FILENO : STDERR_FILENO }

    /// Why something could not be written.
    package enum Failure: Error, Equatable {
        /// The reader went away, as `head` does.
        case brokenPipe
        /// In the system's words, such as "No space left on device".
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

    /// Fills the places of standard input, output and errors that this process was started without (`>&-`). Otherwise
    /// the next files that it opens would get their numbers, and what is written for people. They are opened the wrong
    /// way round, so that reading and writing fails as it does without them, and is not taken for done.
    package static func fillClosed() {
        for number in STDIN_FILENO...STDERR_FILENO where fcntl(number, F_GETFD) == -1 {
            _ = unsafe open("/dev/null", number == STDIN_FILENO ? O_WRONLY : O_RDONLY)
        }
    }

    /// Closes it. A file system may report only now that something could not be written (close(2)).
    package func close() throws(Failure) {
        guard Glibc.close(descriptor) == 0 || errno == EINTR || errno == EBADF else { throw Self.failure(errno) }
    }

    private static func failure(_ code: CInt) -> Failure {
        code == EPIPE ? .brokenPipe : .failed(SystemCall.text(of: code))
    }

    /// Columns of the terminal that it leads to; nil if it leads elsewhere.
    package var columns: Int? {
        var size = winsize()
        guard unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// Whether systemd's journal reads what is written to it: the environment names the device and the inode of the
    /// journal's socket, and they are this stream's (`JOURNAL_STREAM` in systemd.exec(5)). A program that a service
    /// starts inherits the variable, also if its output goes elsewhere.
    package func isReadByJournal(_ environment: [String: String]) -> Bool {
        var status = stat()
        guard let stream = environment["JOURNAL_STREAM"], unsafe fstat(descriptor, &status) == 0 else { return false }
        return stream == "\(status.st_dev):\(status.st_ino)"
    }

    /// From now on a reader that went away is only an error of the write. Event loops block the signal in their own
    /// threads, but a log is also written by others, and would end the program in the middle of its work.
    package static func outliveReaders() {
        signal(SIGPIPE, SIG_IGN)
    }

    /// Ends this process as a broken pipe ends others: by the signal, which event loops block in their threads, and
    /// without a message.
    package static func endByBrokenPipe() -> Never {
        signal(SIGPIPE, SIG_DFL)
        kill(getpid(), SIGPIPE)
        sleep(1)
        _exit(128 + SIGPIPE)
    }
}
