/// One open stream. It is a plain row, so that a thousand of them are one block of memory.
struct Stream {
    struct Flags: OptionSet {
        let rawValue: UInt8

        /// This side's END_STREAM has been written to the output.
        static let localEnded = Flags(rawValue: 1)
        /// The peer's END_STREAM has been read.
        static let remoteEnded = Flags(rawValue: 2)
        /// The peer's header section (for a client: the final one) has been read; the next one would be trailers.
        static let headReceived = Flags(rawValue: 4)
        /// Part of this side's body waits for the peer's windows.
        static let bodyWaiting = Flags(rawValue: 8)
        /// This side's header section has been begun.
        static let headSent = Flags(rawValue: 16)
    }

    /// 0 marks a free row.
    var id: UInt32 = 0
    var flags: Flags = []
    /// Interim responses read so far, counted up to the limit.
    var interimCount: UInt8 = 0
    /// The send window minus the peer's SETTINGS_INITIAL_WINDOW_SIZE. So a change of the setting changes all windows at
    /// once, and may make them negative (RFC 9113 §6.9.2).
    var sendCredit = 0
    /// The receive window minus this side's SETTINGS_INITIAL_WINDOW_SIZE in force.
    var receiveCredit = 0
    /// How many octets of body the peer still has to send by its `content-length`; -1 if it gave none.
    var bodyBytesExpected = -1
    /// The caller's number for the stream; it comes back in every event.
    var tag: UInt64 = 0
    /// When the stream was opened, in nanoseconds of the caller's clock.
    var openedAt: UInt64 = 0
    /// The status of a final response, as soon as it has been read; 0 before.
    var status = 0
    /// The output position behind this side's END_STREAM; `.max` until that has been written.
    var endPosition = UInt64.max
}

/// The stream of an event.
package struct StreamReference: Equatable, Sendable {
    package let id: UInt32
    /// The number that was given to `openRequest` or `setTag`.
    package let tag: UInt64
    /// When the stream was opened, in nanoseconds of the caller's clock.
    package let openedAt: UInt64
    /// The status of the final response, even if that broke another rule; 0 if none was read.
    package let status: Int

    init(_ stream: Stream) {
        id = stream.id
        tag = stream.tag
        openedAt = stream.openedAt
        status = stream.status
    }
}
