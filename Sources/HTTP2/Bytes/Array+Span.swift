extension Array where Element == UInt8 {
    /// Appends the bytes of a span in one copy.
    package mutating func append(_ bytes: Span<UInt8>) {
        unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
    }

    /// A copy of the bytes of a span.
    package init(_ bytes: Span<UInt8>) {
        self = unsafe bytes.withUnsafeBufferPointer { unsafe Array($0) }
    }
}

extension Span where Element == UInt8 {
    /// Whether both hold the same bytes.
    package func isEqual(to other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        for index in indices where self[index] != other[index] { return false }
        return true
    }

    /// The integer of `Value`'s width at `offset`, in network byte order.
    func bigEndian<Value: FixedWidthInteger & UnsignedInteger>(at offset: Int, as type: Value.Type = Value.self)
        -> Value
    {
        var value: Value = 0
        for index in offset..<(offset &+ Value.bitWidth / 8) { value = value &<< 8 | Value(self[index]) }
        return value
    }
}
