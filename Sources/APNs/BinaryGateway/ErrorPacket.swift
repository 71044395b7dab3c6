package import QueueCore

/// The only thing that the binary interface ever answers: six bytes, after which it closes the connection.
///
///     08 | status u8 | identifier u32
///
/// Source: Apple archive, "Binary Provider API", error-response packet.
package struct ErrorPacket: Equatable, Sendable {
    package static let byteCount = 6
    private static let command: UInt8 = 8

    package let status: BinaryStatus
    /// Of the notification it is about, as that was sent.
    package let identifier: UInt32

    /// What it says of the notification, in the words of today's provider API.
    var refusal: Refusal {
        let reason = status.reason
        return Refusal(status: reason.row.status, text: status.reasonText)
    }

    /// Whether another notification may fare better at once: the fault is this one's and neither the server's nor the credential's.
    var isAboutOneRecipient: Bool {
        let reason = status.reason
        return reason != .other && [.reject, .suspect].contains(reason.row.action)
    }

    /// Reads packets from a stream, as it comes. Pure: bytes in, packets out, six bytes of memory. A fuzzer's way in.
    package struct Parser {
        private var held = InlineArray<6, UInt8>(repeating: 0)
        private var count = 0

        package init() {}

        /// Whether part of a packet has come.
        package var isWithinPacket: Bool { count > 0 }

        /// Takes what has arrived and returns the first packet that it completes; what follows that is passed over, since the
        /// server closes behind it.
        package mutating func take(_ bytes: Span<UInt8>) throws(BinaryProtocolError) -> ErrorPacket? {
            for index in bytes.indices {
                held[count] = bytes[index]
                count += 1
                guard held[0] == ErrorPacket.command else {
                    // What is held stays within its six bytes, however often a caller asks again.
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

/// What a peer sent that the binary interface does not know.
package enum BinaryProtocolError: Error, Equatable, CustomStringConvertible {
    case unknownCommand(UInt8)
    /// A feedback record says that its token is longer than any.
    case tokenTooLong(Int)

    package var description: String {
        switch self {
        case .unknownCommand(let command): "sent \(command) where only an error packet (8) may come"
        case .tokenTooLong(let count): "sent a record with a token of \(count) bytes"
        }
    }
}
