import Terminal
import Testing

@Suite struct `Keys of a terminal` {
    @Test(arguments: [
        ("q", [Key.character("q")]), ("\r", [.enter]), ("\n", [.enter]), ("\u{7F}", [.backspace]), ("\t", [.tab]),
        ("\u{1B}", [.escape]), ("\u{1B}[A", [.up]), ("\u{1B}OB", [.down]),
        ("\u{1B}[5~\u{1B}[6~", [.pageUp, .pageDown]),
        ("\u{1B}[H\u{1B}[4~", [.home, .end]), ("j\u{1B}[Aü", [.character("j"), .up, .character("ü")]),
    ])
    func `are read from the bytes that xterm sends`(bytes: String, keys: [Key]) {
        #expect(Key.keys(in: Array(bytes.utf8)) == keys)
    }

    @Test(arguments: ["\u{1B}[200~", "\u{1B}[1;5C", "\u{1B}[", "\u{1}\u{0}", "\u{1B}[?1;2c"])
    func `that are not known are left out`(bytes: String) {
        #expect(Key.keys(in: Array(bytes.utf8)) == [])
        #expect(Key.keys(in: Array((bytes + "").utf8) + [0xFF]) == [], "nor is half a character")
    }
}
