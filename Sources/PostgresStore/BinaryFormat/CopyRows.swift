/// Collects rows for a `COPY … FROM STDIN (FORMAT binary)` into pieces of the right size.
///
/// Start each row with its number of columns, and add the columns in order, in exactly the types of the table's
/// columns: COPY converts nothing.
package struct CopyRows {
    /// Large enough that the cost of a system call per row is negligible, small enough to stay in the processor's
    /// cache.
    package static let chunkBytes = 64 * 1024

    private var bytes: [UInt8] = []

    /// Starts with the format's signature, its flags, and the length of the header's extension.
    package init() {
        bytes.reserveCapacity(Self.chunkBytes + 4096)
        bytes += Array("PGCOPY\n".utf8) + [0xff, 0x0d, 0x0a, 0x00] + [0, 0, 0, 0] + [0, 0, 0, 0]
    }

    /// Whether it is time to ``take()`` and write.
    package var isFull: Bool { bytes.count >= Self.chunkBytes }

    package mutating func startRow(columns: Int) { write(Int16(columns)) }
    package mutating func addNull() { write(-1 as Int32) }
    package mutating func add(_ value: Bool) { add(integer: value ? 1 : 0 as UInt8) }
    package mutating func add(_ value: Int16) { add(integer: value) }
    package mutating func add(_ value: Int32) { add(integer: value) }
    package mutating func add(_ value: Int64) { add(integer: value) }

    /// A `timestamptz`, in microseconds since 1970.
    package mutating func add(timestamp: Int64) { add(integer: PostgresEpoch.encode(timestamp)) }

    package mutating func add(_ text: String) {
        write(Int32(text.utf8.count))
        bytes.append(contentsOf: text.utf8)
    }

    /// A `text[]` of one dimension, or of none if it is empty.
    package mutating func add(_ texts: [String]) {
        let bytes = texts.reduce(0) { $0 + 4 + $1.utf8.count }
        write(Int32(texts.isEmpty ? 12 : 20 + bytes))
        write(Int32(texts.isEmpty ? 0 : 1))
        write(0 as Int32)  // no nulls
        write(TypeID.text)
        guard !texts.isEmpty else { return }
        write(Int32(texts.count))
        write(1 as Int32)  // the first index
        for text in texts { add(text) }
    }

    /// A `jsonb`, which has a version before its text.
    package mutating func add(json: String) {
        write(Int32(1 + json.utf8.count))
        bytes.append(1)
        bytes.append(contentsOf: json.utf8)
    }

    /// A `bytea`.
    package mutating func add(_ value: Span<UInt8>) {
        write(Int32(value.count))
        unsafe value.withUnsafeBytes { unsafe bytes.append(contentsOf: $0) }
    }

    /// Returns the current piece, and starts the next one.
    package mutating func take() -> [UInt8] {
        defer { bytes.removeAll(keepingCapacity: true) }
        return bytes
    }

    /// Returns the last piece, with the end marker.
    package mutating func takeLast() -> [UInt8] {
        write(-1 as Int16)
        return take()
    }

    private mutating func add(integer: some FixedWidthInteger) {
        write(Int32(integer.bitWidth / 8))
        write(integer)
    }

    private mutating func write(_ value: some FixedWidthInteger) {
        unsafe withUnsafeBytes(of: value.bigEndian) { unsafe bytes.append(contentsOf: $0) }
    }
}
