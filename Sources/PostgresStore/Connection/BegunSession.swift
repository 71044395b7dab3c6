import CPostgres
import Glibc

/// A session of libpq that is begun, and not open yet.
enum BegunSession {
    /// Begins a session with these parameters, which the caller owns; nil: out of memory.
    static func start(_ parameters: [String: String]) -> OpaquePointer? {
        let pairs = parameters.sorted { $0.key < $1.key }
        var keywords = unsafe pairs.map { unsafe UnsafePointer(strdup($0.key)) }
        var values = unsafe pairs.map { unsafe UnsafePointer(strdup($0.value)) }
        unsafe keywords.append(nil)
        unsafe values.append(nil)
        defer {
            for index in pairs.indices {
                unsafe free(UnsafeMutablePointer(mutating: keywords[index]))
                unsafe free(UnsafeMutablePointer(mutating: values[index]))
            }
        }
        return unsafe PQconnectStartParams(keywords, values, 0)
    }
}
