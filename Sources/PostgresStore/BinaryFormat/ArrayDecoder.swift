/// Reads an array without nulls. The format (`array_send`): the number of dimensions, whether there are nulls, the type
/// of the elements, the length and first index of each dimension; then the elements row by row, each after its length.
@safe struct ArrayDecoder {
    let count: Int
    private let elements: UnsafeRawBufferPointer

    /// - Parameter field: the bytes of the array, which must outlive this value.
    init(_ field: UnsafeRawBufferPointer) {
        let dimensions = unsafe Self.int4(field, at: 0)
        var count = dimensions == 0 ? 0 : 1
        for dimension in 0..<dimensions { count *= unsafe Self.int4(field, at: 12 + 8 * dimension) }
        self.count = count
        unsafe elements = UnsafeRawBufferPointer(rebasing: field[(12 + 8 * dimensions)...])
    }

    /// The number of bytes of the elements without their lengths.
    var elementBytes: Int { unsafe elements.count - 4 * count }

    /// Returns integers; nil if there are nulls. Elements of one width have equal distances, so they are read in one
    /// pass.
    func integers<Integer: FixedWidthInteger>(as: Integer.Type = Integer.self) -> [Integer]? {
        let width = MemoryLayout<Integer>.size
        guard elementBytes == count * width else { return nil }
        // For an empty array, the standard library would write the length into the storage that all empty arrays share,
        // in several threads at once: formally a data race.
        guard count > 0 else { return [] }
        return unsafe Array(unsafeUninitializedCapacity: count) { room, filled in
            for index in 0..<count {
                let place = index * (4 + width) + 4
                let value = unsafe elements.loadUnaligned(fromByteOffset: place, as: Integer.self)
                unsafe room.initializeElement(at: index, to: Integer(bigEndian: value))
            }
            filled = count
        }
    }

    /// Passes the elements to `body` one after the other. Stops and returns false at a null.
    func visit(_ body: (Span<UInt8>) -> Void) -> Bool {
        var offset = 0
        for _ in 0..<count {
            let length = unsafe Self.int4(elements, at: offset)
            guard length >= 0 else { return false }
            let start = offset + 4
            let element = unsafe UnsafeRawBufferPointer(rebasing: elements[start..<start + length])
            unsafe body(Span(_unsafeBytes: element))
            offset = start + length
        }
        return true
    }

    private static func int4(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        unsafe Int(Int32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Int32.self)))
    }
}
