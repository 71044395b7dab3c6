/// A notification of the binary interface, as it arrived.
///
/// Source: Apple archive, "Binary Provider API" and "Legacy Notification Format". This parser shares no code with the
/// client, so that a mistake in one of them shows.
struct BinaryNotification: Equatable {
    /// 0, 1 or 2.
    var command: UInt8
    /// Nil in command 0, or if the item is missing.
    var identifier: UInt32?
    var expiration: UInt32?
    var priority: UInt8?
    /// Nil if the item is missing.
    var token: [UInt8]?
    var payload: [UInt8]?
}

extension BinaryNotification {
    /// The rest of the stream cannot be read.
    struct Unreadable: Error, Equatable {}

    /// Reads notifications from a stream. Pure: bytes in, notifications out. A fuzzer tests it.
    struct Parser {
        /// The maximum size of a frame. It is far above the allowed size, so that a payload that is too long can be
        /// distinguished from nonsense.
        private static let maximumFrameBytes = 64 * 1024

        private var held: [UInt8] = []
        private var position = 0

        /// Takes bytes and calls `found` for each notification that they complete, until `found` returns false.
        mutating func take(
            _ bytes: Span<UInt8>, _ found: (BinaryNotification) -> Bool
        ) throws(Unreadable) {
            held.reserveCapacity(held.count + bytes.count)
            for index in bytes.indices { held.append(bytes[index]) }
            while let byteCount = try nextByteCount(), byteCount <= held.count - position {
                let notification = try read(byteCount)
                position += byteCount
                guard found(notification) else { return }
            }
            held.removeFirst(position)
            position = 0
        }

        /// Returns the length of the next command; nil while that is not known.
        private func nextByteCount() throws(Unreadable) -> Int? {
            guard position < held.count else { return nil }
            switch held[position] {
            case 0: return oldByteCount(fixed: 1)
            case 1: return oldByteCount(fixed: 9)
            case 2:
                guard let byteCount = number(at: 1, 4) else { return nil }
                guard byteCount <= Self.maximumFrameBytes else { throw Unreadable() }
                return 5 + byteCount
            default: throw Unreadable()
            }
        }

        /// Returns the length of command 0 or 1: fixed fields, then token and payload, each after its length.
        private func oldByteCount(fixed: Int) -> Int? {
            guard let tokenCount = number(at: fixed, 2), let payloadCount = number(at: fixed + 2 + tokenCount, 2)
            else { return nil }
            return fixed + 2 + tokenCount + 2 + payloadCount
        }

        private func read(_ byteCount: Int) throws(Unreadable) -> BinaryNotification {
            var notification = BinaryNotification(command: held[position])
            guard notification.command < 2 else {
                try readItems(byteCount, into: &notification)
                return notification
            }
            let fixed = notification.command == 0 ? 1 : 9
            if fixed == 9 {
                notification.identifier = number(at: 1, 4).map { UInt32($0) }
                notification.expiration = number(at: 5, 4).map { UInt32($0) }
            }
            let tokenCount = number(at: fixed, 2) ?? 0
            notification.token = bytes(fixed + 2, tokenCount)
            notification.payload = bytes(fixed + 4 + tokenCount, byteCount - fixed - 4 - tokenCount)
            return notification
        }

        private func readItems(_ byteCount: Int, into notification: inout BinaryNotification) throws(Unreadable) {
            var offset = 5
            while offset < byteCount {
                guard offset + 3 <= byteCount, let count = number(at: offset + 1, 2), offset + 3 + count <= byteCount
                else { throw Unreadable() }
                let value = offset + 3
                switch (held[position + offset], count) {
                case (1, _): notification.token = bytes(value, count)
                case (2, _): notification.payload = bytes(value, count)
                case (3, 4): notification.identifier = number(at: value, 4).map { UInt32($0) }
                case (4, 4): notification.expiration = number(at: value, 4).map { UInt32($0) }
                case (5, 1): notification.priority = held[position + value]
                default: throw Unreadable()
                }
                offset = value + count
            }
        }

        /// Returns the integer of `count` bytes at `offset` in the command; nil if it has not arrived.
        private func number(at offset: Int, _ count: Int) -> Int? {
            guard position + offset + count <= held.count else { return nil }
            return bytes(offset, count).reduce(0) { $0 << 8 | Int($1) }
        }

        private func bytes(_ offset: Int, _ count: Int) -> [UInt8] {
            Array(held[(position + offset)..<(position + offset + count)])
        }
    }
}
