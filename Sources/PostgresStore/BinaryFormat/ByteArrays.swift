/// Many byte strings in one piece of memory: PostgreSQL's `bytea[]`. Thousands of device tokens cost two allocations.
package struct ByteArrays: Sendable, Equatable {
    /// All byte strings, one after the other.
    package private(set) var bytes: [UInt8] = []
    /// The end of each byte string in `bytes`.
    private var ends: [Int] = []

    package init() {}

    package init(_ arrays: some Sequence<[UInt8]>) {
        for array in arrays { append(array.span) }
    }

    /// `count` byte strings of the same length, which follow each other in `bytes`.
    package init(equallyLong bytes: [UInt8], count: Int) {
        precondition(count > 0 && bytes.count.isMultiple(of: count), "equally long byte strings fill their bytes")
        let length = bytes.count / count
        self.bytes = bytes
        ends = (1...count).map { $0 * length }
    }

    package var count: Int { ends.count }
    package var isEmpty: Bool { ends.isEmpty }

    /// Reserves room, so that appending does not copy what is there.
    package mutating func reserveCapacity(count: Int, bytes byteCount: Int) {
        ends.reserveCapacity(count)
        bytes.reserveCapacity(byteCount)
    }

    package mutating func append(_ array: Span<UInt8>) {
        unsafe array.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
        ends.append(bytes.count)
    }

    /// The range of the array at `index` in ``bytes``.
    package func range(at index: Int) -> Range<Int> {
        (index == 0 ? 0 : ends[index - 1])..<ends[index]
    }

    /// A copy of one array.
    package subscript(index: Int) -> [UInt8] {
        Array(bytes[range(at: index)])
    }
}

extension ByteArrays: ExpressibleByArrayLiteral {
    package init(arrayLiteral arrays: [UInt8]...) {
        self.init(arrays)
    }
}
