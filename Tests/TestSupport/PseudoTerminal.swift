import Foundation
import Glibc
package import LocalStack
import Transport

/// A terminal for one program. A test types and reads at its other end (pty(7)).
package final class PseudoTerminal: Sendable {
    private let master: CInt
    /// The program's end. It stays open here, so that a test can read the terminal's modes after the program has ended.
    private let slave: CInt
    private let shown = Locked<[UInt8]>([])

    /// `TIOCSPTLCK` and `TIOCGPTN` (ioctl_tty(2)), which Swift does not import.
    private static let unlock: UInt = 0x4004_5431
    private static let getNumber: UInt = 0x8004_5430

    /// Creates a terminal of the given size.
    package init(columns: Int, rows: Int) throws {
        master = unsafe Glibc.open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var (number, isLocked): (CInt, CInt) = (0, 0)
        guard master >= 0, unsafe ioctl(master, Self.unlock, &isLocked) == 0,
            unsafe ioctl(master, Self.getNumber, &number) == 0
        else {
            throw NeverHappened(description: "there is no pseudo-terminal: \(unsafe String(cString: strerror(errno)))")
        }
        slave = unsafe Glibc.open("/dev/pts/\(number)", O_RDWR | O_NOCTTY | O_CLOEXEC)
        resize(columns: columns, rows: rows)
        Thread.detachNewThread { [master, shown] in
            var buffer = [UInt8](repeating: 0, count: 65_536)
            while true {
                let count = unsafe read(master, &buffer, buffer.count)
                guard count > 0 else { return }
                shown.withLock { $0 += buffer[..<count] }
            }
        }
    }

    deinit {
        Glibc.close(slave)
        Glibc.close(master)
    }

    /// Starts a program in a session of its own, with this terminal as its controlling terminal.
    package func start(
        _ executable: Executable, _ arguments: [String], environment: [String: String] = [:]
    ) throws -> ChildProcess {
        var command = executable.command(
            arguments, environment: ["TERM": "xterm-256color"].merging(environment) { $1 }, output: "", errors: "")
        command.arguments = ["--ctty", "--wait", command.executable] + command.arguments
        command.executable = "/usr/bin/setsid"
        command.input = slave
        command.output = .descriptor(slave)
        command.errors = .descriptor(slave)
        return try ChildProcess(command)
    }

    /// Changes the size and notifies the program.
    package func resize(columns: Int, rows: Int) {
        var size = winsize(ws_row: UInt16(rows), ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
        _ = unsafe ioctl(master, UInt(TIOCSWINSZ), &size)
    }

    /// Types keys.
    package func type(_ keys: String) {
        let bytes = Array(keys.utf8)
        _ = unsafe write(master, bytes, bytes.count)
    }

    /// The program in the foreground; nil if there is none.
    package var program: Int32? {
        let group = tcgetpgrp(master)
        return group > 0 ? group : nil
    }

    /// The terminal's modes, as a text that can be compared.
    package var modes: String {
        var modes = termios()
        _ = unsafe tcgetattr(slave, &modes)
        return "\(modes.c_iflag) \(modes.c_oflag) \(modes.c_cflag) \(modes.c_lflag) \(modes.c_cc)"
    }

    /// Everything that the program has written.
    package var output: String { String(decoding: shown.withLock { $0 }, as: UTF8.self) }

    /// The lines of the last complete screen. A program draws from the upper left corner, and then clears the rest
    /// below.
    package var screen: [String] {
        let whole = output.components(separatedBy: "\u{1B}[J").dropLast().last ?? ""
        let last = whole.components(separatedBy: "\u{1B}[H").last ?? ""
        let plain = last.replacing(/\u{1B}\[[0-9;?]*[A-Za-z]/, with: "")
        return plain.unicodeScalars.filter { $0 != "\r" }.split(separator: "\n", omittingEmptySubsequences: false)
            .map { String(String.UnicodeScalarView($0)) }
    }
}
