import HTTP2
import QueueCore

/// The three forms in which the binary interface takes a notification, by the number of their command. All integers are
/// in network byte order.
///
/// Source: Apple archive, "Binary Provider API" (command 2) and "Legacy Notification Format" (commands 0 and 1).
package enum BinaryCommand: UInt8, CaseIterable, Sendable {
    /// Token and payload. Without an identifier an error only closes the connection, and does not say which
    /// notification was at fault.
    case simple = 0
    /// Adds an identifier and an expiration.
    case enhanced = 1
    /// A frame of items; adds a priority.
    case framed = 2

    /// The longest payload it carries, in bytes.
    package var maximumPayloadBytes: Int { self == .framed ? 2048 : 256 }

    /// Whether it carries the identifier by which an error names a notification.
    var hasIdentifier: Bool { self != .simple }

    /// Whether it can carry a priority other than 10.
    package var hasPriority: Bool { self == .framed }

    /// The expiration that stands for "as long as APNs likes". A notification must have one; java-apns and apns_erlv3
    /// send this.
    private static let maximumExpiration = UInt32(Int32.max)

    /// Returns an expiration in the interface's form: seconds since 1970, or 0 for one attempt at delivery.
    static func seconds(of expiration: Expiration) -> UInt32 {
        switch expiration {
        case .apnsDefault: maximumExpiration
        case .oneAttempt: 0
        case .until(let seconds): UInt32(clamping: seconds)
        }
    }

    /// Returns why a push cannot be sent in this form, as the reason that APNs would give; nil if it can.
    ///
    /// The interface has no topic: the certificate's app is the topic. It has no collapse identifiers either. A
    /// collapse identifier that is only derived from the `apns-id` is left out.
    func obstacle(to push: PreparedPush) -> Reason? {
        if !push.kind.pushType.topicSuffix.isEmpty { return .named("InvalidPushType") }
        let priority = push.effectivePriority
        if priority == .passive || !hasPriority && priority != .immediate { return .named("BadPriority") }
        if !push.collapseID.isEmpty { return .named("BadCollapseId") }
        return push.payload.count > maximumPayloadBytes ? .payloadTooLarge : nil
    }

    /// Writes a notification.
    /// - Parameters:
    ///   - token: at most 65,535 bytes, like the payload.
    ///   - expiration: seconds since 1970; 0 is one attempt at delivery.
    func write(
        token: Span<UInt8>, payload: Span<UInt8>, identifier: UInt32, expiration: UInt32, priority: Priority,
        to output: inout ByteQueue
    ) {
        output.append(rawValue)
        switch self {
        case .simple: break
        case .enhanced:
            output.append(bigEndian: identifier)
            output.append(bigEndian: expiration)
        case .framed:
            return writeItems(
                token: token, payload: payload, identifier: identifier, expiration: expiration, priority: priority,
                to: &output)
        }
        output.append(bigEndian: UInt16(token.count))
        output.append(token)
        output.append(bigEndian: UInt16(payload.count))
        output.append(payload)
    }

    /// Writes five items, each preceded by its number and its length.
    private func writeItems(
        token: Span<UInt8>, payload: Span<UInt8>, identifier: UInt32, expiration: UInt32, priority: Priority,
        to output: inout ByteQueue
    ) {
        output.append(bigEndian: UInt32(5 * 3 + token.count + payload.count + 4 + 4 + 1))
        Self.writeItem(1, byteCount: token.count, to: &output)
        output.append(token)
        Self.writeItem(2, byteCount: payload.count, to: &output)
        output.append(payload)
        Self.writeItem(3, byteCount: 4, to: &output)
        output.append(bigEndian: identifier)
        Self.writeItem(4, byteCount: 4, to: &output)
        output.append(bigEndian: expiration)
        Self.writeItem(5, byteCount: 1, to: &output)
        output.append(UInt8(priority.rawValue))
    }

    private static func writeItem(_ number: UInt8, byteCount: Int, to output: inout ByteQueue) {
        output.append(number)
        output.append(bigEndian: UInt16(byteCount))
    }
}
