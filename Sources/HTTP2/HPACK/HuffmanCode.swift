/// HPACK's Huffman code (RFC 7541 §5.2, appendix B).
///
/// The code is canonical: codes of one length are consecutive, in the order of their symbols, and longer codes follow
/// shorter ones. So the whole table of the RFC follows from the lengths alone. One look-up decodes codes of up to eight
/// bits, which cover digits, letters and the separators in paths and identifiers. The few longer codes are decoded by
/// finding their length.
enum HuffmanCode {
    /// The number of bits of each symbol's code; 256 is the end-of-string symbol.
    private static let bitCounts: [UInt8] = [
        13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28,
        28,
        28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6,
        12,
        10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5,
        6,
        5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22,
        22,
        22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21,
        20,
        22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22,
        23,
        26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26,
        28,
        27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27,
        28,
        27, 27, 27, 27, 27, 26, 30,
    ]
    private static let endOfString = 256
    private static let shortBits = 8

    /// The codes, right-aligned, by symbol.
    private static let codes: [UInt32] = {
        var codes = [UInt32](repeating: 0, count: bitCounts.count)
        var next: UInt32 = 0
        for bitCount in UInt8(5)...30 {
            next <<= 1
            for symbol in bitCounts.indices where bitCounts[symbol] == bitCount {
                codes[symbol] = next
                next += 1
            }
        }
        return codes
    }()

    /// For each value of the next eight bits: bit count << 8 | symbol, or 0 where the code is longer.
    private static let shortCodes: [UInt16] = {
        var entries = [UInt16](repeating: 0, count: 1 << shortBits)
        for symbol in bitCounts.indices where bitCounts[symbol] <= shortBits {
            let freeBits = shortBits - Int(bitCounts[symbol])
            let first = Int(codes[symbol]) << freeBits
            for entry in first..<(first + 1 << freeBits) {
                entries[entry] = UInt16(bitCounts[symbol]) << 8 | UInt16(symbol)
            }
        }
        return entries
    }()

    /// The codes of one length above eight bits: their first and their end, left-aligned in 32 bits, and their symbols.
    private struct LongCodes {
        var bitCount: Int
        var first: UInt32
        var end: UInt32
        var symbols: [UInt16]
    }

    private static let longCodes: [LongCodes] = (shortBits + 1...30).compactMap { bitCount in
        let symbols = bitCounts.indices.filter { bitCounts[$0] == bitCount }
        guard let first = symbols.first else { return nil }
        let shift = UInt32(32 - bitCount)
        // The last length ends at 2^32, which does not fit; no code is as large as the largest integer.
        let end = (UInt64(codes[first]) + UInt64(symbols.count)) << shift
        return LongCodes(
            bitCount: bitCount, first: codes[first] << shift, end: UInt32(clamping: end),
            symbols: symbols.map(UInt16.init))
    }

    // MARK: Decoding

    /// The largest number of octets that `count` octets of code can stand for: the shortest code has five bits.
    static func maximumDecodedCount(of count: Int) -> Int { count * 8 / 5 }

    /// Appends the text that `code` stands for. Fails with `headerListTooLarge` when `output` cannot hold it.
    static func decode(_ code: Span<UInt8>, into output: inout OutputSpan<UInt8>) throws(Violation) {
        let shortCodes = Self.shortCodes.span
        var bits: UInt64 = 0  // The bits that were read and not decoded, left-aligned.
        var bitCount = 0
        var offset = 0
        while true {
            while bitCount <= 56, offset < code.count {
                bits |= UInt64(code[offset]) &<< UInt64(56 &- bitCount)
                bitCount &+= 8
                offset &+= 1
            }
            // The bits behind the end count as ones, like the padding.
            let padded = bitCount >= 32 ? bits : bits | UInt64.max &>> UInt64(bitCount)
            let entry = shortCodes[Int(padded &>> 56)]
            var symbol = Int(entry & 0xff)
            var length = Int(entry &>> 8)
            if length == 0 {
                if bitCount < 8, padded == .max { return }
                (symbol, length) = try decodeLong(UInt32(padded &>> 32))
            }
            // There are fewer bits than the code needs: it is cut off, or its padding has a zero.
            guard length <= bitCount else { throw .invalidHuffman }
            guard output.freeCapacity > 0 else { throw .headerListTooLarge }
            output.append(UInt8(truncatingIfNeeded: symbol))
            bits &<<= UInt64(length)
            bitCount &-= length
        }
    }

    private static func decodeLong(_ bits: UInt32) throws(Violation) -> (symbol: Int, length: Int) {
        for codes in longCodes where bits < codes.end {
            let symbol = Int(codes.symbols[Int((bits - codes.first) >> UInt32(32 - codes.bitCount))])
            // The end-of-string symbol must not appear (RFC 7541 §5.2).
            guard symbol != endOfString else { throw .invalidHuffman }
            return (symbol, codes.bitCount)
        }
        throw .invalidHuffman
    }

    // MARK: Encoding

    /// How many octets the code of `text` takes.
    static func encodedCount(of text: [UInt8]) -> Int {
        (text.reduce(0) { $0 + Int(bitCounts[Int($1)]) } + 7) / 8
    }

    /// The code of `text`, padded with ones.
    static func encode(_ text: [UInt8]) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(encodedCount(of: text))
        var bits: UInt64 = 0
        var bitCount: UInt64 = 0
        for octet in text {
            let symbol = Int(octet)
            bits = bits << UInt64(bitCounts[symbol]) | UInt64(codes[symbol])
            bitCount += UInt64(bitCounts[symbol])
            while bitCount >= 8 {
                bitCount -= 8
                output.append(UInt8(truncatingIfNeeded: bits >> bitCount))
            }
        }
        if bitCount > 0 { output.append(UInt8(truncatingIfNeeded: bits << (8 - bitCount) | 0xff >> bitCount)) }
        return output
    }
}
