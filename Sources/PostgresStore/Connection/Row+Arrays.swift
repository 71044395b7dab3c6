/// Arrays without nulls. Arrays of several dimensions are read row by row.
extension Row {
    package func int4Array(_ name: StaticString) -> [Int32] { integers(rows.column(name), TypeID.int4) }
    package func int8Array(_ name: StaticString) -> [Int64] { integers(rows.column(name), TypeID.int8) }
    package func optionalInt2Array(_ name: StaticString) -> [Int16]? { optional(name) { integers($0, TypeID.int2) } }
    package func optionalInt8Array(_ name: StaticString) -> [Int64]? { optional(name) { integers($0, TypeID.int8) } }

    package func textArray(_ name: StaticString) -> [String] {
        let column = rows.column(name)
        let array = array(column, of: TypeID.text)
        var texts: [String] = []
        texts.reserveCapacity(array.count)
        let isWithoutNulls = array.visit { texts.append(String(decoding: $0)) }
        precondition(isWithoutNulls, mismatch(column, "an array without nulls"))
        return texts
    }

    /// A `bytea[]`, copied in one piece. Empty for null, which `array_agg` returns if there are no rows.
    package func byteArrays(_ name: StaticString) -> ByteArrays { byteArrays(name, TypeID.bytea) }

    /// A `text[]`, copied in one piece. Empty for null.
    package func texts(_ name: StaticString) -> ByteArrays { byteArrays(name, TypeID.text) }

    private func byteArrays(_ name: StaticString, _ type: UInt32) -> ByteArrays {
        let column = rows.column(name)
        var arrays = ByteArrays()
        guard !rows.isNull(index, column) else { return arrays }
        let array = array(column, of: type)
        arrays.reserveCapacity(count: array.count, bytes: array.elementBytes)
        let isWithoutNulls = array.visit { arrays.append($0) }
        precondition(isWithoutNulls, mismatch(column, "an array without nulls"))
        return arrays
    }

    private func integers<Integer: FixedWidthInteger>(_ column: Int, _ type: UInt32) -> [Integer] {
        guard let integers = array(column, of: type).integers(as: Integer.self) else {
            fatalError(mismatch(column, "an array without nulls"))
        }
        return integers
    }

    private func array(_ column: Int, of type: UInt32) -> ArrayDecoder {
        unsafe ArrayDecoder(field(column, TypeID.array(of: type)))
    }
}

extension String {
    fileprivate init(decoding bytes: Span<UInt8>) {
        self = unsafe bytes.withUnsafeBytes { unsafe String(decoding: $0, as: UTF8.self) }
    }
}
