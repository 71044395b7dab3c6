/// Arrays of one dimension, without nulls in them.
extension Row {
    package func int2Array(_ column: Int) -> [Int16] { integers(column, TypeID.int2) }
    package func int4Array(_ column: Int) -> [Int32] { integers(column, TypeID.int4) }
    package func int8Array(_ column: Int) -> [Int64] { integers(column, TypeID.int8) }

    package func float8Array(_ column: Int) -> [Double] {
        integers(column, TypeID.float8).map { Double(bitPattern: $0 as UInt64) }
    }

    package func boolArray(_ column: Int) -> [Bool] {
        integers(column, TypeID.bool).map { $0 as UInt8 != 0 }
    }

    package func textArray(_ column: Int) -> [String] {
        let array = ArrayField(self, column, TypeID.text)
        var texts: [String] = []
        texts.reserveCapacity(array.count)
        array.visit { texts.append(String(decoding: $0)) }
        return texts
    }

    /// A `bytea[]`, copied in one piece. Empty for null, which `array_agg` returns for no rows.
    package func byteArrays(_ column: Int) -> ByteArrays {
        var arrays = ByteArrays()
        guard !isNull(column) else { return arrays }
        let field = ArrayField(self, column, TypeID.bytea)
        arrays.reserveCapacity(count: field.count, bytes: field.byteCount - 4 * field.count)
        field.visit { arrays.append($0) }
        return arrays
    }

    package func optionalInt4Array(_ column: Int) -> [Int32]? { isNull(column) ? nil : int4Array(column) }
    package func optionalInt8Array(_ column: Int) -> [Int64]? { isNull(column) ? nil : int8Array(column) }
    package func optionalTextArray(_ column: Int) -> [String]? { isNull(column) ? nil : textArray(column) }

    /// Elements of one width stand at equal distances, so that they are read in one pass.
    private func integers<Integer: FixedWidthInteger>(_ column: Int, _ type: UInt32) -> [Integer] {
        let array = ArrayField(self, column, type)
        let width = MemoryLayout<Integer>.size
        precondition(array.byteCount == array.count * (4 + width), mismatch(column, "an array without nulls"))
        return unsafe Array(unsafeUninitializedCapacity: array.count) { room, count in
            for index in 0..<array.count {
                let place = index * (4 + width) + 4
                let value = unsafe array.elements.loadUnaligned(fromByteOffset: place, as: Integer.self)
                unsafe room.initializeElement(at: index, to: Integer(bigEndian: value))
            }
            count = array.count
        }
    }
}

/// An array in binary: the number of dimensions, whether there are nulls, the type of the elements, for each dimension its length
/// and first index; then the elements, each behind its length (`array_recv`).
@safe private struct ArrayField {
    let count: Int
    let elements: UnsafeRawBufferPointer
    let row: Row
    let column: Int

    init(_ row: Row, _ column: Int, _ elementType: UInt32) {
        let field = unsafe row.field(column, TypeID.array(of: elementType))
        let dimensions = unsafe Self.int4(field, at: 0)
        precondition(dimensions <= 1, row.mismatch(column, "an array of one dimension"))
        count = unsafe dimensions == 0 ? 0 : Self.int4(field, at: 12)
        unsafe elements = UnsafeRawBufferPointer(rebasing: field[(dimensions == 0 ? 12 : 20)...])
        self.row = row
        self.column = column
    }

    var byteCount: Int { unsafe elements.count }

    func visit(_ body: (Span<UInt8>) -> Void) {
        var offset = 0
        for _ in 0..<count {
            let length = unsafe Self.int4(elements, at: offset)
            precondition(length >= 0, row.mismatch(column, "an array without nulls"))
            let start = offset + 4
            let element = unsafe UnsafeRawBufferPointer(rebasing: elements[start..<start + length])
            unsafe body(Span(_unsafeBytes: element))
            offset = start + length
        }
    }

    private static func int4(_ bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        unsafe Int(Int32(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Int32.self)))
    }
}

extension String {
    fileprivate init(decoding bytes: Span<UInt8>) {
        self = unsafe bytes.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
    }
}
