import Glibc

/// The service manager that started this process, if it wants notifications. In systemd's protocol, each is a datagram
/// of lines `NAME=value` to the socket that the environment names (sd_notify(3)).
package struct ServiceManager: Equatable, Sendable {
    private let address: SocketAddress
    /// The service manager kills the service if no sign of life comes for this time (`WatchdogSec=`); nil if it expects
    /// none.
    package let watchdog: Duration?

    /// Nil if no service manager wants notifications.
    /// - Parameters:
    ///   - environment: has `NOTIFY_SOCKET`, a path or `@` and an abstract name, and `WATCHDOG_USEC`, which applies to
    ///     the process `WATCHDOG_PID`.
    package init?(_ environment: [String: String], process: Int32 = getpid()) {
        guard let path = environment["NOTIFY_SOCKET"], path.hasPrefix("/") || path.hasPrefix("@"),
            let address = SocketAddress(unixPath: path)
        else { return nil }
        self.address = address
        let isForThisProcess = environment["WATCHDOG_PID"].map { $0 == "\(process)" } ?? true
        let microseconds = environment["WATCHDOG_USEC"].flatMap(Int64.init) ?? 0
        watchdog = isForThisProcess && microseconds > 0 ? .microseconds(microseconds) : nil
    }

    /// Notifies that the service is ready.
    package func ready() { send("READY=1") }

    /// Notifies that the service ends.
    package func stopping() { send("STOPPING=1") }

    /// Sends a sign of life to the watchdog.
    package func alive() { send("WATCHDOG=1") }

    /// Sends what the service does, in one line that `systemctl status` shows.
    package func status(_ text: String) {
        send("STATUS=\(text.split(whereSeparator: \.isNewline).joined(separator: " "))")
    }

    /// Sends a datagram without waiting, since a full socket must not hold up the loop. A failure is ignored, because
    /// there is nowhere to report it.
    private func send(_ state: String) {
        let kind = CInt(SOCK_DGRAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue) | CInt(SOCK_NONBLOCK.rawValue)
        let descriptor = socket(AF_UNIX, kind, 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        let bytes = Array(state.utf8)
        _ = unsafe address.withKernelForm { place, placeBytes in
            unsafe bytes.withUnsafeBytes {
                unsafe sendto(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL), place, placeBytes)
            }
        }
    }
}
