import Terminal
import Testing

@Suite struct `A line of a screen` {
    private static let line: StyledLine = {
        var line = StyledLine("queues ")
        line.append("17", .bad)
        return line
    }()

    @Test func `has its styles, and without colours only what is no colour`() {
        #expect(Self.line.encoded(columns: 80, inColor: true) == "queues \u{1B}[1;31m17\u{1B}[0m")
        #expect(Self.line.encoded(columns: 80, inColor: false) == "queues \u{1B}[1m17\u{1B}[0m")
        #expect(StyledLine("x", .dim).encoded(columns: 80, inColor: false) == "x")
        #expect(StyledLine("x", .reversed).encoded(columns: 80, inColor: false) == "\u{1B}[7mx\u{1B}[0m")
    }

    @Test func `is no longer than the screen is wide`() {
        #expect(Self.line.encoded(columns: 8, inColor: false) == "queues \u{1B}[1m…\u{1B}[0m")
        #expect(Self.line.encoded(columns: 4, inColor: false) == "que…")
        #expect(Self.line.encoded(columns: 0, inColor: false) == "")
        #expect("日本語".terminalColumns == 6)
        #expect("日本語".clipped(to: 5) == "日本…")
        #expect("acme/com.acme.shop/production".clippedInside(to: 15) == "acme/co…duction")
        #expect(StyledLine("ab").highlighted(.reversed, columns: 4).text == "ab  ")
    }

    @Test(arguments: [
        ("é", 1), ("→", 1), ("✓", 1), ("☎", 1), ("❤", 1), ("1", 1), ("🌡", 1), ("ﾊ", 1), ("⌛", 2),
        ("⏰", 2), ("⏳", 2), ("☔", 2), ("♿", 2), ("⚡", 2), ("⚽", 2), ("⛄", 2), ("⛔", 2), ("✅", 2),
        ("✨", 2), ("❌", 2), ("❗", 2), ("➕", 2), ("⬛", 2), ("⭐", 2), ("🃏", 2), ("🆕", 2), ("🇦🇹", 2),
        ("🎉", 2), ("🚀", 2), ("🥳", 2), ("👩‍🚀", 2), ("👍🏽", 2), ("\u{2764}\u{FE0F}", 2),
        ("\u{1F321}\u{FE0F}", 2), ("1\u{FE0F}\u{20E3}", 2), ("\u{2329}", 2), ("語", 2), ("한", 2),
        ("ハ", 2), ("𠮷", 2),
    ])
    func `is as wide as its characters are`(text: String, columns: Int) {
        #expect(text.terminalColumns == columns)
    }

    @Test func `holds nothing that steers the terminal`() {
        #expect(!StyledLine("a\u{1B}[2Jb\n").encoded(columns: 80, inColor: true).contains("\u{1B}[2J"))
    }
}
