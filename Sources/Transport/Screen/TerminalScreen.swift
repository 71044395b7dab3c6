import Glibc

/// The terminal of this process as a screen: what is drawn takes the place of what was there, and keys come as they are
/// pressed.
///
/// The terminal is given back as it was when the screen is closed, and also when the process crashes. Only SIGKILL
/// leaves it as it is; `reset` helps then. Ctrl-C and Ctrl-Z still send their signals, which the owner acts on.
package final class TerminalScreen {
    /// Columns and rows of a terminal.
    package struct Size: Equatable, Sendable {
        package var columns: Int
        package var rows: Int

        package init(columns: Int, rows: Int) {
            self.columns = columns
            self.rows = rows
        }
    }

    /// A terminal that does not say how large it is.
    private static let usualSize = Size(columns: 80, rows: 24)

    /// Whether standard input and standard output are terminals.
    package static var isThere: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 }

    private let loop: EventLoop
    private var keys: KeyHandler?

    /// A screen that is not open yet.
    package init(on loop: EventLoop) {
        self.loop = loop
    }

    /// Turns to a second screen, on which nothing scrolls, and has keys reported as they are pressed. What was on the
    /// terminal comes back with ``close()``.
    package func open() {
        GivenBack.remember()
        applyModes()
    }

    /// The same again, after the process was stopped: the shell has set the terminal as it likes it.
    package func applyModes() {
        GivenBack.useKeys()
        try? StandardStream.output.write("\u{1B}[?1049h\u{1B}[?25l\u{1B}[2J")
    }

    /// Gives the terminal back.
    package func close() {
        GivenBack.giveBack()
    }

    /// Gives the terminal back and stops the process, as Ctrl-Z does; returns when it is continued, with the screen
    /// open again.
    package func stopProcess() {
        close()
        // To this thread: if another one took the signal, this one would open the screen before it is stopped.
        raise(SIGSTOP)
        open()
    }

    /// How large it is at this moment.
    package var size: Size {
        var size = winsize()
        guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return Self.usualSize
        }
        return Size(columns: Int(size.ws_col), rows: Int(size.ws_row))
    }

    /// Replaces what is on the screen, in one write.
    package func draw(_ lines: [String]) throws(StandardStream.Failure) {
        try StandardStream.output.write(
            "\u{1B}[H" + lines.joined(separator: "\u{1B}[K\r\n") + "\u{1B}[K\u{1B}[J")
    }

    /// Calls `pressed` with the bytes of each key, on the loop; with nil once, when the terminal is gone.
    package func watchKeys(_ pressed: @escaping ([UInt8]?) -> Void) {
        let handler = KeyHandler { [loop] in
            var bytes = [UInt8](repeating: 0, count: 256)
            let count = unsafe read(STDIN_FILENO, &bytes, bytes.count)
            if count < 0, errno == EINTR || errno == EAGAIN { return }
            guard count > 0 else {
                loop.unwatch(STDIN_FILENO)
                return pressed(nil)
            }
            pressed(Array(bytes[..<count]))
        }
        keys = handler
        loop.watch(STDIN_FILENO, for: .readable, handler: handler)
    }

    /// Calls nobody any more.
    package func unwatchKeys() {
        guard keys != nil else { return }
        keys = nil
        loop.unwatch(STDIN_FILENO)
    }
}

private final class KeyHandler: ReadinessHandler {
    private let readable: () -> Void

    init(_ readable: @escaping () -> Void) { self.readable = readable }

    func ready(_ readiness: Interest) { readable() }
}

/// What it takes to give the terminal back, where a signal's handler can reach it. Everything that is called here may
/// be called in one (signal-safety(7)).
private enum GivenBack {
    /// How the terminal was; used while `isTaken`.
    private nonisolated(unsafe) static var modes = termios()
    private nonisolated(unsafe) static var isTaken = false
    /// Shows the cursor, and the first screen with what was on it.
    private nonisolated(unsafe) static let ending: (bytes: UnsafeMutablePointer<CChar>, count: Int) = {
        let text = "\u{1B}[0m\u{1B}[?25h\u{1B}[?1049l"
        return unsafe (strdup(text), text.utf8.count)
    }()
    /// What a crash of this process raises.
    private static let crashes = [SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGABRT]

    static func remember() {
        guard unsafe !isTaken else { return }
        unsafe tcgetattr(STDIN_FILENO, &modes)
        // Made before a handler needs it.
        _ = unsafe ending.count
        unsafe isTaken = true
        for number in crashes {
            // The default follows: the signal comes again when the handler returns.
            signal(number) { number in
                GivenBack.giveBack()
                _ = signal(number, SIG_DFL)
                raise(number)
            }
        }
    }

    /// Keys are not echoed, and come without Return.
    static func useKeys() {
        var own = unsafe modes
        own.c_lflag &= ~UInt32(ICANON | ECHO)
        // A read returns as soon as there is a byte (termios(3), VMIN and VTIME).
        own.c_cc.6 = 1
        own.c_cc.5 = 0
        unsafe tcsetattr(STDIN_FILENO, TCSANOW, &own)
    }

    static func giveBack() {
        guard unsafe isTaken else { return }
        unsafe isTaken = false
        _ = unsafe write(STDOUT_FILENO, ending.bytes, ending.count)
        unsafe tcsetattr(STDIN_FILENO, TCSANOW, &modes)
    }
}
