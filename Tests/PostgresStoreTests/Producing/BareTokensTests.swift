import TestSupport
import Testing

@testable import PostgresStore

@Suite struct `Bare tokens` {
    /// Rows with one column for each token.
    private func rows(_ tokens: [[UInt8]]) -> [UInt8] {
        var rows = CopyRows()
        for token in tokens {
            rows.startRow(columns: 1)
            rows.add(token.span)
        }
        return rows.takeLast()
    }

    private func rows(_ tokens: BareTokens) -> [UInt8] {
        var rows = CopyRows()
        for index in 0..<tokens.count {
            rows.startRow(columns: 1)
            tokens.add(index, to: &rows)
        }
        return rows.takeLast()
    }

    private func collected(_ tokens: [[UInt8]]) -> BareTokens {
        tokens.reduce(into: BareTokens()) { $0.append($1) }
    }

    /// Many tokens have their first eight bytes in common, or are the beginning of others.
    @Test(arguments: UInt64(1)...100)
    func `are sorted by their bytes, each once`(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let bytes: [UInt8] = [[0, 1], [0, 0xff], [0x7f, 0x80], Array(0...255)].randomElement(using: &random)!
        let longest = [2, 8, 9, 12, 32, 100].randomElement(using: &random)!
        let tokens: [[UInt8]] = (0..<Int.random(in: 0...300, using: &random)).map { _ in
            (0..<Int.random(in: 1...longest, using: &random)).map { _ in bytes.randomElement(using: &random)! }
        }
        var sorted = collected(tokens)
        #expect(sorted.count == tokens.count)
        #expect(rows(sorted) == rows(tokens), "as they came")
        sorted.sort()
        let expected = Set(tokens).sorted { $0.lexicographicallyPrecedes($1) }
        #expect(sorted.count == expected.count)
        #expect(rows(sorted) == rows(expected))
    }

    @Test func `fill a limit by their number, or by the bytes of usual ones`() {
        let usual = [UInt8](repeating: 7, count: 32)
        #expect(!collected([usual, usual]).isFull(3))
        #expect(collected([usual, usual, usual]).isFull(3))
        let long = [UInt8](repeating: 7, count: 96)
        #expect(collected([long]).isFull(3))
        #expect(!BareTokens().isFull(1))
    }
}
