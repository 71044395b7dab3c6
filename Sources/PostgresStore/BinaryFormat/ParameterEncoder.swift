/// Writes parameters in PostgreSQL's binary format (that of the types' `…recv` functions) into one buffer, which a
/// connection reuses for all its statements.
struct ParameterEncoder {
    private(set) var bytes: [UInt8] = []
    /// Where each parameter starts in `bytes`; -1 for null.
    private(set) var starts: [Int] = []
    private(set) var lengths: [CInt] = []
    private(set) var types: [UInt32] = []
    /// The format of each parameter: 1 for binary.
    private(set) var formats: [CInt] = []

    mutating func encode(_ parameters: [Parameter]) {
        bytes.removeAll(keepingCapacity: true)
        starts.removeAll(keepingCapacity: true)
        lengths.removeAll(keepingCapacity: true)
        types.removeAll(keepingCapacity: true)
        formats.removeAll(keepingCapacity: true)
        for parameter in parameters { encode(parameter) }
    }

    private mutating func encode(_ parameter: Parameter) {
        switch parameter {
        case .bool(let value): scalar(TypeID.bool, value) { $0.write($1 ? 1 : 0 as UInt8) }
        case .int2(let value): scalar(TypeID.int2, value) { $0.write($1) }
        case .int4(let value): scalar(TypeID.int4, value) { $0.write($1) }
        case .int8(let value): scalar(TypeID.int8, value) { $0.write($1) }
        case .float8(let value): scalar(TypeID.float8, value) { $0.write($1.bitPattern) }
        case .text(let value): scalar(TypeID.text, value) { $0.bytes.append(contentsOf: $1.utf8) }
        case .bytea(let value): scalar(TypeID.bytea, value) { $0.bytes.append(contentsOf: $1) }
        case .timestamptz(let value): scalar(TypeID.timestamptz, value) { $0.write(PostgresEpoch.encode($1)) }
        case .interval(let value): scalar(TypeID.interval, value) { $0.writeInterval($1) }
        case .date(let value): scalar(TypeID.date, value) { $0.write($1.daysSince2000) }

        case .boolArray(let values): array(TypeID.bool, values) { $0 ? 1 : 0 as UInt8 }
        case .int2Array(let values): array(TypeID.int2, values) { $0 }
        case .int4Array(let values): array(TypeID.int4, values) { $0 }
        case .int8Array(let values): array(TypeID.int8, values) { $0 }
        case .float8Array(let values): array(TypeID.float8, values) { Int64(bitPattern: $0.bitPattern) }
        case .timestamptzArray(let values): array(TypeID.timestamptz, values) { PostgresEpoch.encode($0) }
        case .textArray(let values): array(TypeID.text, values) { $0.bytes.append(contentsOf: $1.utf8) }
        case .byteaArray(let values): array(TypeID.bytea, values) { $0.bytes.append(contentsOf: $1) }

        case .optionalInt8Array(let values): optionalArray(TypeID.int8, values) { $0.write($1) }
        case .optionalTextArray(let values): optionalArray(TypeID.text, values) { $0.bytes.append(contentsOf: $1.utf8) }
        case .optionalByteaArray(let values): optionalArray(TypeID.bytea, values) { $0.bytes.append(contentsOf: $1) }
        case .optionalTimestamptzArray(let values):
            optionalArray(TypeID.timestamptz, values) { $0.write(PostgresEpoch.encode($1)) }
        }
    }

    // MARK: Scalars

    private mutating func scalar<Value>(_ type: UInt32, _ value: Value?, _ write: (inout Self, Value) -> Void) {
        let start = bytes.count
        if let value { write(&self, value) }
        finish(type, from: value == nil ? -1 : start, length: bytes.count - start)
    }

    private mutating func finish(_ type: UInt32, from start: Int, length: Int) {
        starts.append(start)
        lengths.append(CInt(length))
        types.append(type)
        formats.append(1)
    }

    private mutating func write<Integer: FixedWidthInteger>(_ value: Integer) {
        unsafe withUnsafeBytes(of: value.bigEndian) { unsafe bytes.append(contentsOf: $0) }
    }

    /// Writes microseconds, days and months; a duration has no days and no months.
    private mutating func writeInterval(_ duration: Duration) {
        write(duration.wholeMicroseconds)
        write(0 as Int32)
        write(0 as Int32)
    }

    // MARK: Arrays

    /// Writes the number of dimensions, whether there are nulls, and the type of the elements; then the length and
    /// first index of the dimension.
    private mutating func writeArrayHeader(_ type: UInt32, count: Int, hasNulls: Bool) {
        write(count == 0 ? 0 : 1 as Int32)
        write(hasNulls ? 1 : 0 as Int32)
        write(type)
        guard count > 0 else { return }
        write(Int32(count))
        write(1 as Int32)
    }

    /// Writes elements of one width, the hot case, in one pass into room that is allocated at once.
    private mutating func array<Value, Integer: FixedWidthInteger>(
        _ type: UInt32, _ values: [Value], _ integer: (Value) -> Integer
    ) {
        let start = bytes.count
        writeArrayHeader(type, count: values.count, hasNulls: false)
        let width = MemoryLayout<Integer>.size
        var offset = bytes.count
        bytes.append(contentsOf: repeatElement(0, count: values.count * (4 + width)))
        unsafe bytes.withUnsafeMutableBytes { room in
            for value in values {
                unsafe room.storeBytes(of: Int32(width).bigEndian, toByteOffset: offset, as: Int32.self)
                unsafe room.storeBytes(of: integer(value).bigEndian, toByteOffset: offset + 4, as: Integer.self)
                offset += 4 + width
            }
        }
        finish(TypeID.array(of: type), from: start, length: bytes.count - start)
    }

    /// Writes elements of varying length.
    private mutating func array<Value>(
        _ type: UInt32, _ values: [Value], _ write: (inout Self, Value) -> Void
    ) {
        let start = bytes.count
        writeArrayHeader(type, count: values.count, hasNulls: false)
        for value in values { writeElement(value, write) }
        finish(TypeID.array(of: type), from: start, length: bytes.count - start)
    }

    private mutating func optionalArray<Value>(
        _ type: UInt32, _ values: [Value?], _ write: (inout Self, Value) -> Void
    ) {
        let start = bytes.count
        writeArrayHeader(type, count: values.count, hasNulls: values.contains { $0 == nil })
        for value in values {
            if let value { writeElement(value, write) } else { self.write(-1 as Int32) }
        }
        finish(TypeID.array(of: type), from: start, length: bytes.count - start)
    }

    /// Reserves room for the length and fills it in after the element, because the length is known only then.
    private mutating func writeElement<Value>(_ value: Value, _ write: (inout Self, Value) -> Void) {
        let place = bytes.count
        self.write(0 as Int32)
        write(&self, value)
        let length = Int32(bytes.count - place - 4).bigEndian
        unsafe bytes.withUnsafeMutableBytes { unsafe $0.storeBytes(of: length, toByteOffset: place, as: Int32.self) }
    }
}

extension Duration {
    /// The microseconds without their fraction.
    package var wholeMicroseconds: Int64 {
        components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000
    }
}
