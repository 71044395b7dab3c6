/// An answer other than 200 whose body is still coming.
struct PartialRefusal {
    /// Of a body no more is kept; the rest is dropped as it comes. Apple's have some 50 bytes, and a connection may have thousands of
    /// them half read.
    static let maximumBodyBytes = 4096

    let status: Int
    var retryAfter: Duration?
    var body: [UInt8] = []
}
