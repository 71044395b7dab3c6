/// Writes header blocks (RFC 7541 §3, §6). Fields are of two kinds: the fields of a `PreparedHeaders`, which repeat,
/// and single fields whose value differs each time. Of the latter only the name is kept.
package struct HPACKEncoder: ~Copyable {
    /// The maximum that this side uses of the table that the peer offers. The repeated fields of a connection fit into
    /// the initial size.
    private static let ownCapacityLimit = 4096

    private var table = DynamicTable(capacity: 4096)
    /// Sizes to announce at the start of the next block: the smallest seen since the last one, then the current
    /// (RFC 7541 §4.2).
    private var smallestUnannounced: Int?
    private let names: FieldNames
    /// For each name: the number of the table entry that was made to keep it.
    private var namesKept: [UInt64]

    /// The octets of a `PreparedHeaders` on this connection, valid until the table changes.
    private struct Remembered {
        var number: UInt64 = 0
        var generation: UInt64 = 0
        var block: [UInt8] = []
    }
    private var remembered = [Remembered](repeating: Remembered(), count: 16)
    /// Counts the changes of the table. Each change shifts the indices.
    private var generation: UInt64 = 0

    package init(names: FieldNames = FieldNames()) {
        self.names = names
        namesKept = Array(repeating: 0, count: 128)
    }

    /// Takes a SETTINGS_HEADER_TABLE_SIZE of the peer.
    package mutating func setCapacityLimit(_ limit: Int) {
        let capacity = min(limit, Self.ownCapacityLimit)
        guard capacity != table.capacity else { return }
        smallestUnannounced = min(smallestUnannounced ?? .max, capacity)
        table.setCapacity(capacity)
        generation += 1
    }

    /// Starts a block, and announces a changed size of the table.
    package mutating func beginBlock(into output: inout ByteQueue) {
        guard let smallest = smallestUnannounced else { return }
        if smallest < table.capacity { output.appendInteger(smallest, prefixBits: 5, pattern: 0x20) }
        output.appendInteger(table.capacity, prefixBits: 5, pattern: 0x20)
        smallestUnannounced = nil
    }

    /// Appends the prepared fields.
    package mutating func append(_ headers: PreparedHeaders, into output: inout ByteQueue) {
        let slot = Int(truncatingIfNeeded: headers.number) & 15
        if remembered[slot].number == headers.number, remembered[slot].generation == generation {
            output.append(remembered[slot].block)
            return
        }
        encode(headers, slot, into: &output)
    }

    @inline(never)
    private mutating func encode(_ headers: PreparedHeaders, _ slot: Int, into output: inout ByteQueue) {
        let start = output.endPosition
        let generationBefore = generation
        for field in headers.fields { append(field, into: &output) }
        // Octets that changed the table would mean something else the next time.
        guard generation == generationBefore else { return }
        let block = output.withBytes(at: start, count: Int(output.endPosition - start)) { Array($0) }
        remembered[slot] = Remembered(number: headers.number, generation: generation, block: block)
    }

    private mutating func append(_ field: PreparedHeaders.Field, into output: inout ByteQueue) {
        if let index = field.staticIndex { return output.appendInteger(index, prefixBits: 7, pattern: 0x80) }
        let isSecret = field.indexing == .neverIndexed
        if !isSecret, let index = table.index(of: field.name, field.value) {
            return output.appendInteger(index + StaticTable.count + 1, prefixBits: 7, pattern: 0x80)
        }
        let nameIndex = field.staticNameIndex ?? table.index(of: field.name).map { $0 + StaticTable.count + 1 } ?? 0
        let byteCount = field.name.count + field.value.count
        let isKept = field.indexing == .incremental && byteCount + DynamicTable.entryOverhead <= table.capacity
        if isKept {
            output.appendInteger(nameIndex, prefixBits: 6, pattern: 0x40)
        } else {
            output.appendInteger(nameIndex, prefixBits: 4, pattern: isSecret ? 0x10 : 0)
        }
        if nameIndex == 0 { output.append(field.nameLiteral) }
        output.append(field.valueLiteral)
        if isKept { insert(.other, nameByteCount: field.name.count, text: field.name + field.value) }
    }

    /// Appends one field whose value is not worth keeping. The first time, it puts the name into the table, together
    /// with that first value. Afterwards the name costs an index (one or two octets).
    package mutating func append(_ name: FieldName, _ value: Span<UInt8>, into output: inout ByteQueue) {
        guard appendKnownName(name, into: &output) else { return appendWithNewName(name, value, into: &output) }
        output.appendString(value)
    }

    /// The same for a `:path` of two parts, the second of which is written in hexadecimal digits.
    mutating func append(path: Span<UInt8>, hexadecimal bytes: Span<UInt8>, into output: inout ByteQueue) {
        let isKnown = appendKnownName(.path, into: &output)
        precondition(isKnown, "The static table has a path.")
        output.appendInteger(path.count &+ bytes.count &* 2, prefixBits: 7, pattern: 0)
        output.append(path)
        output.append(hexadecimal: bytes)
    }

    /// The same for a UUID, given as its two halves.
    mutating func append(_ name: FieldName, uuid: (high: UInt64, low: UInt64), into output: inout ByteQueue) {
        guard appendKnownName(name, into: &output) else {
            var text = ByteQueue(minimumCapacity: ByteQueue.uuidByteCount)
            text.append(uuid: uuid)
            let value = text.withBytes { Array($0) }
            return appendWithNewName(name, value.span, into: &output)
        }
        output.appendInteger(ByteQueue.uuidByteCount, prefixBits: 7, pattern: 0)
        output.append(uuid: uuid)
    }

    /// Appends the index of a name for a value that is not kept; false if neither table has it.
    private func appendKnownName(_ name: FieldName, into output: inout ByteQueue) -> Bool {
        let staticIndex = names.staticIndex(of: name)
        if staticIndex > 0 {
            output.appendInteger(staticIndex, prefixBits: 4, pattern: 0)
        } else if let index = table.index(ofNumber: namesKept[Int(name.rawValue)]) {
            output.appendInteger(index &+ StaticTable.count &+ 1, prefixBits: 4, pattern: 0)
        } else {
            return false
        }
        return true
    }

    private mutating func appendWithNewName(_ name: FieldName, _ value: Span<UInt8>, into output: inout ByteQueue) {
        var text = names.text(of: name)
        let nameByteCount = text.count
        // In a table that is too small for a few of these fields, they would only evict each other.
        let isKept = (nameByteCount + value.count + DynamicTable.entryOverhead) * 4 <= table.capacity
        output.append(isKept ? 0x40 : 0)
        output.appendString(text.span)
        output.appendString(value)
        guard isKept else { return }
        text.append(value)
        insert(name, nameByteCount: nameByteCount, text: text)
        namesKept[Int(name.rawValue)] = table.insertions
    }

    private mutating func insert(_ name: FieldName, nameByteCount: Int, text: [UInt8]) {
        _ = table.insert(name, isWellFormed: true, nameByteCount: nameByteCount, text: text.span)
        generation += 1
    }
}
