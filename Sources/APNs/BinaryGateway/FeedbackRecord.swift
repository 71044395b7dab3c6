import QueueCore

/// One entry of the feedback service's list: a device from which the app is gone.
///
///     time u32 | token length u16 | token
///
/// Source: Apple archive, "Binary Provider API", the feedback service.
package struct FeedbackRecord: Equatable, Sendable {
    /// When APNs found out, in seconds since 1970.
    package let time: UInt32
    package let token: [UInt8]

    /// Reads records from a stream. Pure: bytes in, records out. It holds at most one record in memory. A fuzzer tests
    /// it.
    package struct Parser {
        private static let headByteCount = 6

        private var held: [UInt8] = []

        package init() {}

        /// Takes bytes and adds the records that they complete to `records`. An error ends the list, since the
        /// beginning of the next record is then unknown.
        package mutating func take(
            _ bytes: Span<UInt8>, into records: inout [FeedbackRecord]
        ) throws(BinaryProtocolError) {
            for index in bytes.indices {
                held.append(bytes[index])
                guard held.count >= Self.headByteCount else { continue }
                let tokenByteCount = Int(held[4]) << 8 | Int(held[5])
                guard tokenByteCount <= DeviceToken.maximumBytes else { throw .tokenTooLong(tokenByteCount) }
                guard held.count == Self.headByteCount + tokenByteCount else { continue }
                let time = held[..<4].reduce(0) { $0 << 8 | UInt32($1) }
                records.append(FeedbackRecord(time: time, token: Array(held[Self.headByteCount...])))
                held.removeAll(keepingCapacity: true)
            }
        }
    }
}
