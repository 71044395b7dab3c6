import Transport

/// A connection to the feedback service: it sends the list of its topic and closes. The loop keeps it alive while it is
/// open.
final class FeedbackSession: ByteStreamHandler {
    private let stream: TLSConnection
    private var rest: ArraySlice<UInt8>

    init(stream: TLSConnection, list: [UInt8]) {
        self.stream = stream
        rest = list[...]
        stream.handler = self
        writable()
    }

    func received(_ bytes: Span<UInt8>) {}

    func writable() {
        guard stream.isOpen else { return }
        rest.removeFirst(stream.write(rest.span))
        if rest.isEmpty { stream.close() }
    }

    func closed(_ error: TransportError?) {}
}
