import Foundation
import Glibc
import Synchronization
import Transport

/// Looks up host names for libpq, which would block the loop with it inside `PQconnectPoll`: `getaddrinfo` gets a thread of its
/// own and a deadline.
enum HostLookup {
    /// The numeric addresses of a host, in the order in which they are to be tried. Throws the reason why there are none.
    static func addresses(of name: String, within limit: Duration, on loop: EventLoop) async throws(LookupError)
        -> [String]
    {
        let answer = await withCheckedContinuation { continuation in
            let answer = FirstAnswer(continuation)
            Thread.detachNewThread { answer.give(lookUp(name)) }
            loop.schedule(after: limit) {
                answer.give(.failure(LookupError(reason: "its name was not resolved in \(limit)")))
            }
        }
        return try answer.get()
    }

    /// Why a name has no address.
    struct LookupError: Error {
        let reason: String
    }

    private typealias Answer = Result<[String], LookupError>

    /// The thread and the deadline both answer; the first counts.
    private final class FirstAnswer: Sendable {
        private let continuation: Mutex<CheckedContinuation<Answer, Never>?>

        init(_ continuation: CheckedContinuation<Answer, Never>) {
            self.continuation = Mutex(continuation)
        }

        func give(_ answer: Answer) {
            continuation.withLock { waiting in
                defer { waiting = nil }
                return waiting
            }?.resume(returning: answer)
        }
    }

    private static func lookUp(_ name: String) -> Answer {
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        var list: UnsafeMutablePointer<addrinfo>?
        let code = unsafe getaddrinfo(name, nil, &hints, &list)
        guard code == 0 else { return .failure(LookupError(reason: unsafe String(cString: gai_strerror(code)))) }
        defer { unsafe freeaddrinfo(list) }
        var addresses: [String] = []
        var next = unsafe list
        while let entry = unsafe next {
            unsafe addresses.append(contentsOf: [numeric(entry.pointee)].compactMap { $0 })
            unsafe next = entry.pointee.ai_next
        }
        return .success(addresses)
    }

    private static func numeric(_ entry: addrinfo) -> String? {
        unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(NI_MAXHOST)) { text in
            let code = unsafe getnameinfo(
                entry.ai_addr, entry.ai_addrlen, text.baseAddress, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
            return code == 0 ? unsafe String(cString: text.baseAddress!) : nil
        }
    }
}
