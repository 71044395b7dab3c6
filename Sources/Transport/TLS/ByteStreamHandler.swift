/// Reads and writes a ``TLSConnection`` or a ``PlainConnection``. Called on the loop's thread; a handler may write to
/// and close the connection from within these calls.
package protocol ByteStreamHandler: AnyObject {
    /// One read burst has arrived. It must be consumed before returning, since all connections of the loop share the
    /// buffer.
    func received(_ bytes: Span<UInt8>)

    /// The connection takes bytes again, after a `write` that did not take all of them.
    func writable()

    /// The connection is gone. `error` is nil if the peer closed it in order. This is the last call; no call comes
    /// after `close()`.
    func closed(_ error: TransportError?)
}
