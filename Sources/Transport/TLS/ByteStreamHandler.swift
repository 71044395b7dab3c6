/// Whoever reads and writes a ``TLSConnection``. Called on the loop's thread; a handler may write to and close the connection from
/// within its calls.
package protocol ByteStreamHandler: AnyObject {
    /// What has arrived: one read burst, to be consumed before returning, since all connections of the loop share the buffer.
    func received(_ bytes: Span<UInt8>)

    /// The connection takes bytes again, after a `write` that did not take all.
    func writable()

    /// The connection is gone: nil when the peer closed it in order. The last call, and none comes after `close()`.
    func closed(_ error: TransportError?)
}
