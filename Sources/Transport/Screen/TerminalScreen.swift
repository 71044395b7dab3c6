import Glibc

/// The terminal of this process as a screen: drawing replaces the contents, and keys are reported as they are pressed.
///
/// The terminal returns to its earlier state when the screen is closed, and also when the process crashes. After
/// SIGKILL it does not; `reset` helps then. Ctrl-C and Ctrl-Z still send their signals, which the owner handles.
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

    /// The size of a terminal that does not report one.
    private static let usualSize = Size(columns: 80, rows: 24)

    /// Whether standard input and standard output are terminals.
    package static var isThere: Bool { isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 }

    private let loop: EventLoop
    private var keys: KeyHandler?

    /// Makes a screen that is not open yet.
    package init(on loop: EventLoop) {
        self.loop = loop
    }

    /// Switches to the terminal's alternate screen, on which nothing scrolls, and lets it report keys as they are
    /// pressed. ``close()`` brings the earlier contents back.
    package func open() {
        GivenBack.remember()
        applyModes()
    }

    /// Sets the modes of the terminal again, after the process was stopped: the shell has changed them.
    package func applyModes() {
        GivenBack.useKeys()
        try? StandardStream.output.write("\u{1B}[?1049h\u{1B}[?25l\u{1B}[2J")
    }

    /// Restores the terminal.
    package func close() {
        GivenBack.giveBack()
    }

    /// Restores the terminal and stops the process, as Ctrl-Z does. Returns when the process is continued, with the
    /// screen open again.
    package func stopProcess() {
        close()
        // `raise` signals this thread. If another thread took the signal, this one would open the screen before it is
        // stopped.
        raise(SIGSTOP)
        open()
    }

    /// The current size of the terminal.
    package var size: Size {
        var size = winsize()
        guard unsafe ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0, size.ws_row > 0 else {
            return Self.usualSize
        }
        return Size(columns: Int(size.ws_col), rows: Int(size.ws_row))
    }

    /// Replaces the contents of the screen in one write.
    package func draw(_ lines: [String]) throws(StandardStream.Failure) {
        try StandardStream.output.write(
            "\u{1B}[H" + lines.joined(separator: "\u{1B}[K\r\n") + "\u{1B}[K\u{1B}[J")
    }

    /// Calls `pressed` on the loop with the bytes of each key, and once with nil when the terminal is gone.
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

    /// Stops reporting keys.
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

/// The state that is needed to restore the terminal, where a signal handler can reach it. `giveBack` calls only
/// functions that a signal handler may call (signal-safety(7)).
private enum GivenBack {
    /// The earlier modes of the terminal; valid while `isTaken`.
    private nonisolated(unsafe) static var modes = termios()
    private nonisolated(unsafe) static var isTaken = false
    /// Shows the cursor and the main screen with its contents.
    private nonisolated(unsafe) static let ending: (bytes: UnsafeMutablePointer<CChar>, count: Int) = {
        let text = "\u{1B}[0m\u{1B}[?25h\u{1B}[?1049l"
        return unsafe (strdup(text), text.utf8.count)
    }()
    /// The signals that end a process by default (signal(7)), from a crash or from outside. SIGKILL cannot be caught.
    /// The owner of the screen handles the others: those that ask to end, and those of the terminal. SIGPIPE is
    /// ignored where it matters.
    private static let endings: [Int32] =
        [
            SIGILL, SIGTRAP, SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGSYS, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM,
            SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGXCPU, SIGXFSZ,
        ] + Array(34...64)  // real-time signals; the C library keeps 32 and 33 for itself

    static func remember() {
        guard unsafe !isTaken else { return }
        unsafe tcgetattr(STDIN_FILENO, &modes)
        // Initialises `ending` before a handler needs it.
        _ = unsafe ending.count
        unsafe isTaken = true
        for number in endings where !Signals.isIgnored(number) {
            // The handler sets the default and raises the signal again, which then ends the process.
            signal(number) { number in
                GivenBack.giveBack()
                _ = signal(number, SIG_DFL)
                raise(number)
            }
        }
    }

    /// Turns off echo, and reports keys without waiting for Return.
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
