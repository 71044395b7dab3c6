import Synchronization

/// Fields that many requests or responses share, prepared once for all connections. A repeated field then costs one
/// octet and no comparison.
///
/// A connection writes the fields in full the first time, which puts them into its dynamic table. From then on it
/// writes a few indices, and remembers those octets under the `number` of this object until its table changes.
package final class PreparedHeaders: Sendable {
    /// How an encoder may treat a field (RFC 7541 §6.2).
    package enum Indexing: Sendable {
        /// Keep the field in the dynamic table.
        case incremental
        /// Send it in full each time.
        case withoutIndexing
        /// Send it in full each time, and forbid proxies to store it: for secrets (RFC 7541 §7.1.3).
        case neverIndexed
    }

    package struct Field: Sendable {
        let name: [UInt8]
        let value: [UInt8]
        let indexing: Indexing
        /// The index of the whole field, and of its name, in the static table.
        let staticIndex: Int?
        let staticNameIndex: Int?
        /// Name and value as string literals, Huffman coded where that is shorter.
        let nameLiteral: [UInt8]
        let valueLiteral: [UInt8]

        /// - Parameter name: in lower case (RFC 9113 §8.2.1).
        package init(_ name: String, _ value: String, indexing: Indexing = .incremental) {
            let isPseudoField = name.hasPrefix(":")
            let name = Array(name.utf8)
            let value = Array(value.utf8)
            precondition(isPseudoField || FieldRules.isValidName(name.span), "Field names are sent in lower case.")
            precondition(FieldRules.isValidValue(value.span), "A value holds no line break and no outer space.")
            self.name = name
            self.value = value
            self.indexing = indexing
            staticIndex = StaticTable.index(of: name, value)
            staticNameIndex = StaticTable.index(of: name)
            nameLiteral = Self.literal(name)
            valueLiteral = Self.literal(value)
        }

        private static func literal(_ text: [UInt8]) -> [UInt8] {
            let huffmanCount = HuffmanCode.encodedCount(of: text)
            let isCoded = huffmanCount < text.count
            var queue = ByteQueue()
            queue.appendInteger(isCoded ? huffmanCount : text.count, prefixBits: 7, pattern: isCoded ? 0x80 : 0)
            queue.append(isCoded ? HuffmanCode.encode(text) : text)
            return queue.withBytes { Array($0) }
        }
    }

    package let fields: [Field]
    /// Unique in a process.
    let number: UInt64

    private static let numbers = Atomic<UInt64>(0)

    package init(_ fields: [Field]) {
        self.fields = fields
        number = Self.numbers.add(1, ordering: .relaxed).newValue
    }
}
