import COpenSSL

/// OpenSSL's error queue, which belongs to the thread and has to be emptied wherever a call fails: what is left in it
/// would be taken for the error of a later, unrelated call.
enum OpenSSLErrors {
    struct Entry {
        let reason: String
        /// Alerts that the peer sent have reason codes of their own.
        let alert: TLSAlert?
        let library: CInt
        let code: CInt
    }

    /// Empties the queue; the first entry is the root of the matter.
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

    /// Throws when a call that answers 1 for success did not.
    static func check(_ result: CInt, _ function: StaticString) throws(CryptographyError) {
        guard result == 1 else { throw .openSSL(function: "\(function)", reason: drainedReason()) }
    }

    /// Throws when a call that answers with a new object gave none.
    static func unwrap<Object>(_ object: Object?, _ function: StaticString) throws(CryptographyError) -> Object {
        guard let object else { throw .openSSL(function: "\(function)", reason: drainedReason()) }
        return object
    }
}
