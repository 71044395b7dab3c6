import COpenSSL

/// OpenSSL's error queue, which belongs to the thread. It must be emptied wherever a call fails: a later, unrelated
/// call would report the remaining errors as its own.
enum OpenSSLErrors {
    struct Entry {
        let reason: String
        /// The alert, if the peer sent one. OpenSSL has a reason code for each alert.
        let alert: TLSAlert?
        let library: CInt
        let code: CInt
    }

    /// Empties the queue. The first entry is the root cause.
    static func drain() -> [Entry] {
        var entries: [Entry] = []
        while true {
            let code = ERR_get_error()
            guard code != 0 else { return entries }
            let text = unsafe ERR_reason_error_string(code).map { unsafe String(cString: $0) }
            let (library, reason) = (ERR_GET_LIB(code), ERR_GET_REASON(code))
            let words = text ?? "error \(reason)"
            let isAlert = library == ERR_LIB_SSL && reason >= SSL_AD_REASON_OFFSET
            let alert = isAlert ? TLSAlert(number: Int(reason - SSL_AD_REASON_OFFSET), text: words) : nil
            entries.append(Entry(reason: words, alert: alert, library: library, code: reason))
        }
    }

    static func drainedReason() -> String {
        drain().first?.reason ?? "no reason given"
    }

    /// Throws if a call that returns 1 for success has failed.
    static func check(_ result: CInt, _ function: StaticString) throws(CryptographyError) {
        guard result == 1 else { throw .openSSL(function: "\(function)", reason: drainedReason()) }
    }

    /// Throws if a call that returns a new object has returned none.
    static func unwrap<Object>(_ object: Object?, _ function: StaticString) throws(CryptographyError) -> Object {
        guard let object else { throw .openSSL(function: "\(function)", reason: drainedReason()) }
        return object
    }
}
