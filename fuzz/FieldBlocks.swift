@testable import HTTP2

/// Limits of a header list as an input draws them: mostly small ones, which an input of a few bytes can reach.
extension HPACKDecoder.Limits {
    init(drawnFrom reader: inout InputReader) {
        let (list, fields) = (Int(reader.byte()), Int(reader.byte()))
        // 0 stands for what a connection has by default.
        self.init(listByteCount: list == 0 ? 16 * 1024 : list * 8, fieldCount: fields == 0 ? 128 : fields)
    }
}

/// Makes header blocks of an input: each byte chooses a representation, an index or a length, so that nearly every
/// input is a block that can be read, and a changed byte is another field instead of a broken one.
///
/// Lengths are small, large, or measured by what a list has left: a byte can hit a limit, and an octet before and
/// behind it.
struct FieldBlocks {
    private let listByteCount: Int
    /// Octets of names and values in the block so far, as far as that is known here.
    private var textByteCount = 0
    /// Name and value lengths of the fields that were to be kept, the newest first; eviction is not followed.
    private var kept: [(name: Int, value: Int)] = []

    init(_ limits: HPACKDecoder.Limits) { listByteCount = limits.listByteCount }

    /// The next block, up to where the input says that it ends.
    mutating func next(_ reader: inout InputReader) -> [UInt8] {
        textByteCount = 0
        var block = ByteQueue()
        while !reader.isAtEnd {
            let choice = reader.byte()
            switch choice & 7 {
            case 0: return block.withBytes { Array($0) }
            case 1: block.appendInteger(Int(reader.byte()), prefixBits: 7, pattern: 0x80)
            case 2: repeatKept(&reader, &block)
            case 3: block.appendInteger(Int(reader.byte()) * 20, prefixBits: 5, pattern: 0x20)
            default: appendLiteral(choice, &reader, &block)
            }
        }
        return block.withBytes { Array($0) }
    }

    private mutating func repeatKept(_ reader: inout InputReader, _ block: inout ByteQueue) {
        let index = Int(reader.byte() & 15)
        block.appendInteger(StaticTable.count + 1 + index, prefixBits: 7, pattern: 0x80)
        if index < kept.count { textByteCount += kept[index].name + kept[index].value }
    }

    /// RFC 7541 §6.2: with a name of its own, of the static or of the dynamic table; to be kept, or not, or never.
    private mutating func appendLiteral(_ choice: UInt8, _ reader: inout InputReader, _ block: inout ByteQueue) {
        let isKept = choice & 8 != 0
        let (prefixBits, pattern): (Int, UInt8) = isKept ? (6, 0x40) : (4, choice & 16 == 0 ? 0 : 0x10)
        var nameByteCount = 0
        switch choice & 7 {
        case 4, 5:
            block.appendInteger(0, prefixBits: prefixBits, pattern: pattern)
            nameByteCount = appendString(&reader, &block)
        case 6:
            let index = Int(reader.byte()) % StaticTable.count + 1
            block.appendInteger(index, prefixBits: prefixBits, pattern: pattern)
            nameByteCount = StaticTable.entries[index].nameByteCount
            textByteCount += nameByteCount
        default:
            let index = Int(reader.byte() & 15)
            block.appendInteger(StaticTable.count + 1 + index, prefixBits: prefixBits, pattern: pattern)
            nameByteCount = index < kept.count ? kept[index].name : 0
            textByteCount += nameByteCount
        }
        let valueByteCount = appendString(&reader, &block)
        if isKept { kept.insert((nameByteCount, valueByteCount), at: 0) }
    }

    /// A string of one character again and again. Answers how many octets it stands for.
    private mutating func appendString(_ reader: inout InputReader, _ block: inout ByteQueue) -> Int {
        let (length, form) = (reader.byte(), reader.byte())
        let byteCount = Self.length(length, room: listByteCount - textByteCount)
        let text = [UInt8](repeating: UInt8(ascii: "a") + form % 26, count: byteCount)
        let coded = form & 0x80 == 0 ? text : HuffmanCode.encode(text)
        block.appendInteger(coded.count, prefixBits: 7, pattern: form & 0x80)
        block.append(coded)
        textByteCount += byteCount
        return byteCount
    }

    /// What a byte says of a length: a small one, one around what there is room for, or one of up to 3 KB.
    static func length(_ byte: UInt8, room: Int) -> Int {
        switch byte {
        case 0..<96: Int(byte)
        case 96..<160: min(max(0, room + Int(byte) - 128), 20_000)
        default: Int(byte - 160) * 32
        }
    }
}

/// Header blocks that are built of the input, by a decoder with limits and a table of the input's choice.
enum HPACKFieldsTarget: FuzzTarget {
    static let name = "hpack-fields"

    /// An input is a size for the table, the limits of a list, and what the blocks are made of.
    static func read(_ input: [UInt8]) {
        var reader = InputReader(input)
        let capacity = Int(reader.byte()) * 32
        let limits = HPACKDecoder.Limits(drawnFrom: &reader)
        var blocks = FieldBlocks(limits)
        var decoding = HPACKTarget.Decoding(capacity: capacity, limits: limits)
        // As many as a connection of some length has, and few enough for an input to be quick.
        for _ in 0..<64 where !reader.isAtEnd {
            guard decoding.read(blocks.next(&reader)) else { return }
        }
    }
}
