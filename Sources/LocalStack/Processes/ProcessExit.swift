/// How a process ended.
package enum ProcessExit: Equatable, Sendable, CustomStringConvertible {
    case code(Int32)
    case signal(Int32)

    package var description: String {
        switch self {
        case .code(let code): "ended with exit code \(code)"
        case .signal(let signal): "was ended by signal \(signal)"
        }
    }
}

extension ProcessExit {
    /// Reads a status of wait(2): the low seven bits are the signal, and the second byte is the code.
    init(waitStatus: Int32) {
        let signal = waitStatus & 0x7f
        self = signal == 0 ? .code(waitStatus >> 8 & 0xff) : .signal(signal)
    }
}
