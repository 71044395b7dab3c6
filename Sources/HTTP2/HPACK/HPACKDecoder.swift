/// Reads header blocks (RFC 7541 §3, §6). Any failure leaves the table unusable: the connection must end with
/// COMPRESSION_ERROR (RFC 9113 §4.3).
package struct HPACKDecoder: ~Copyable {
    /// The limits of one header list, against blocks that are small on the wire and huge when decoded (CVE-2016-6581).
    package struct Limits: Sendable {
        /// Names, values and 32 octets for each field (RFC 7541 §4.1).
        package var listByteCount: Int
        package var fieldCount: Int

        package init(listByteCount: Int = 16 * 1024, fieldCount: Int = 128) {
            self.listByteCount = listByteCount
            self.fieldCount = fieldCount
        }
    }

    private var table = DynamicTable(capacity: 4096)
    /// The SETTINGS_HEADER_TABLE_SIZE that the peer has acknowledged.
    private var capacityLimit = 4096
    /// Whether the limit fell below the table's size. The next block must then begin with a size update (RFC 7541
    /// §4.2).
    private var needsSizeUpdate = false
    private let names: FieldNames
    private let limits: Limits

    package init(names: FieldNames = FieldNames(), limits: Limits = Limits()) {
        self.names = names
        self.limits = limits
    }

    /// Applies a new SETTINGS_HEADER_TABLE_SIZE of this side, once the peer has acknowledged it.
    package mutating func setCapacityLimit(_ limit: Int) {
        capacityLimit = limit
        if limit < table.capacity { needsSizeUpdate = true }
    }

    /// Reads a whole block into `section`, which is emptied first.
    package mutating func decode(_ block: Span<UInt8>, into section: inout FieldSection) throws(Violation) {
        section.removeAll(textLimit: limits.listByteCount)
        var offset = 0
        try decodeSizeUpdates(block, at: &offset)
        while offset < block.count {
            let first = block[offset]
            if first & 0x80 != 0 {  // §6.1: indexed
                let index = try IntegerCoding.decode(block, at: &offset, prefixBits: 7)
                try appendIndexed(index, to: &section)
            } else if first & 0xc0 == 0x40 {  // §6.2.1: literal, to be kept
                try decodeLiteral(block, at: &offset, prefixBits: 6, isKept: true, into: &section)
            } else if first & 0xe0 == 0x20 {  // §6.3: only allowed in front of the first field (§4.2)
                throw .sizeUpdateMisplaced
            } else {  // §6.2.2, §6.2.3: literal, not to be kept
                try decodeLiteral(block, at: &offset, prefixBits: 4, isKept: false, into: &section)
            }
            guard section.size <= limits.listByteCount else { throw .headerListTooLarge }
            guard section.count <= limits.fieldCount else { throw .tooManyFields }
        }
    }

    /// Size updates stand at the start of a block; an encoder needs at most two (RFC 7541 §4.2).
    private mutating func decodeSizeUpdates(_ block: Span<UInt8>, at offset: inout Int) throws(Violation) {
        while offset < block.count, block[offset] & 0xe0 == 0x20 {
            let capacity = try IntegerCoding.decode(block, at: &offset, prefixBits: 5)
            guard capacity <= capacityLimit else { throw .sizeUpdateTooLarge }
            table.setCapacity(capacity)
            needsSizeUpdate = false
        }
        if needsSizeUpdate { throw .sizeUpdateMissing }
    }

    private func appendIndexed(_ index: Int, to section: inout FieldSection) throws(Violation) {
        let start = section.textByteCount
        if index > StaticTable.count {
            let index = index - StaticTable.count - 1
            guard index < table.count else { throw .invalidIndex }
            let entry = table[index]
            try table.withText(of: entry) { text throws(Violation) in try section.append(text: text) }
            section.appendField(
                entry.name, from: start, valueFrom: start + entry.nameByteCount, isWellFormed: entry.isWellFormed,
                identity: table.number(at: index))
        } else {
            guard index > 0 else { throw .invalidIndex }
            let entry = StaticTable.entries[index]
            try section.append(text: StaticTable.text, entry.start..<(entry.start &+ entry.byteCount))
            section.appendField(
                names.ofStaticTable[index], from: start, valueFrom: start &+ entry.nameByteCount, isWellFormed: true,
                identity: 0)
        }
    }

    private mutating func decodeLiteral(
        _ block: Span<UInt8>, at offset: inout Int, prefixBits: Int, isKept: Bool, into section: inout FieldSection
    ) throws(Violation) {
        let start = section.textByteCount
        let index = try IntegerCoding.decode(block, at: &offset, prefixBits: prefixBits)
        let (name, hasGoodName) = try decodeName(index, block, at: &offset, into: &section)
        let valueStart = section.textByteCount
        try decodeString(block, at: &offset, into: &section)
        let isWellFormed = hasGoodName && section.withText(from: valueStart, FieldRules.isValidValue)
        var identity: UInt64 = 0
        if isKept {
            identity = section.withText(from: start) { text in
                table.insert(name, isWellFormed: isWellFormed, nameByteCount: valueStart - start, text: text)
            }
        }
        section.appendField(name, from: start, valueFrom: valueStart, isWellFormed: isWellFormed, identity: identity)
    }

    /// Appends the name of a literal: the name of the entry at `index`, or the string that follows if `index` is 0.
    private func decodeName(
        _ index: Int, _ block: Span<UInt8>, at offset: inout Int, into section: inout FieldSection
    ) throws(Violation) -> (name: FieldName, isWellFormed: Bool) {
        if index == 0 {
            let start = section.textByteCount
            try decodeString(block, at: &offset, into: &section)
            return section.withText(from: start) { text in
                let name = names.number(of: text)
                return (name, name != .other || FieldRules.isValidName(text))
            }
        }
        if index <= StaticTable.count {
            let entry = StaticTable.entries[index]
            try section.append(text: StaticTable.text, entry.start..<(entry.start &+ entry.nameByteCount))
            return (names.ofStaticTable[index], true)
        }
        let index = index - StaticTable.count - 1
        guard index < table.count else { throw .invalidIndex }
        let entry = table[index]
        return try table.withText(of: entry) { text throws(Violation) in
            let name = text.extracting(first: entry.nameByteCount)
            try section.append(text: name)
            return (entry.name, entry.isWellFormed || entry.name != .other || FieldRules.isValidName(name))
        }
    }

    /// Appends a string literal. Its length is checked against the block and the limit before anything is allocated
    /// (RFC 7541 §5.2, §7.4).
    private func decodeString(
        _ block: Span<UInt8>, at offset: inout Int, into section: inout FieldSection
    ) throws(Violation) {
        guard offset < block.count else { throw .truncatedBlock }
        let isHuffmanCoded = block[offset] & 0x80 != 0
        let count = try IntegerCoding.decode(block, at: &offset, prefixBits: 7)
        guard count <= block.count &- offset else { throw .truncatedBlock }
        let string = block.extracting(offset..<(offset &+ count))
        offset &+= count
        guard isHuffmanCoded else { return try section.append(text: string) }
        try section.appendText(upTo: HuffmanCode.maximumDecodedCount(of: count)) { output throws(Violation) in
            try HuffmanCode.decode(string, into: &output)
        }
    }
}
