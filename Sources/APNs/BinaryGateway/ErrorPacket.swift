package import QueueCore

/// The only answer of the binary interface: six bytes, after which it closes the connection.
///
///     08 | status u8 | identifier u32
///
/// Source: Apple archive, "Binary Provider API", error-response packet.
package struct ErrorPacket: Equatable, Sendable {
    package static let byteCount = 6
    private static let command: UInt8 = 8

    package let status: BinaryStatus
    /// The identifier of the notification that it is about.
    package let identifier: UInt32

    /// The refusal of the notification, in the terms of today's provider API.
    var refusal: Refusal {
        let reason = status.reason
        return Refusal(status: reason.row.status, text: status.reasonText)
    }

    /// Whether the fault lies in this notification, and not in the server or the credential. If so, others may be sent
    /// at once.
    var isAboutOneRecipient: Bool {
        let reason = status.reason
        return reason != .other && [.reject, .suspect].contains(reason.row.action)
    }

    /// Reads packets from a stream. Pure: bytes in, packets out, six bytes of memory. A fuzzer tests it.
    package struct Parser {
        private var held = InlineArray<6, UInt8>(repeating: 0)
        private var count = 0

        package init() {}

        /// Whether part of a packet has come.
        package var isWithinPacket: Bool { count > 0 }

        /// Takes bytes and returns the first packet that they complete. Bytes after it are ignored, since the server
        /// closes the connection after a packet.
        package mutating func take(_ bytes: Span<UInt8>) throws(BinaryProtocolError) -> ErrorPacket? {
            for index in bytes.indices {
                held[count] = bytes[index]
                count += 1
                guard held[0] == ErrorPacket.command else {
                    // Keeps the buffer within its six bytes if a caller continues after an error.
                    count = 0
                    throw .unknownCommand(held[0])
                }
                if count == ErrorPacket.byteCount {
                    count = 0
                    return ErrorPacket(
                        status: BinaryStatus(code: held[1]),
                        identifier: UInt32(held[2]) << 24 | UInt32(held[3]) << 16 | UInt32(held[4]) << 8
                            | UInt32(held[5]))
                }
            }
            return nil
        }
    }
}

extension ErrorPacket: CustomStringConvertible {
    package var description: String { "status \(status.code), \(status.reasonText)" }
}

/// A peer sent bytes that the binary interface does not allow.
package enum BinaryProtocolError: Error, Equatable, CustomStringConvertible {
    case unknownCommand(UInt8)
    /// A feedback record announces a token longer than any device token.
    case tokenTooLong(Int)

    package var description: String {
        switch self {
        case .unknownCommand(let command): "sent \(command) where only an error packet (8) may come"
        case .tokenTooLong(let count): "sent a record with a token of \(count) bytes"
        }
    }
}
