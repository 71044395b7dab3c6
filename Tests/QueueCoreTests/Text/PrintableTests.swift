import QueueCore
import Testing

@Suite struct `Text that others wrote` {
    @Test(arguments: [
        ("", ""), ("plain, and \"quoted\"", "plain, and \"quoted\""), ("Grüße 👩‍👩‍👧", "Grüße 👩‍👩‍👧"),
        ("a\nb\tc\r\nd", "a b c  d"), ("a\u{2028}b\u{2029}c\u{85}d", #"a\u{2028}b\u{2029}c\u{85}d"#),
        ("\u{0}\u{7}\u{1B}[31m\u{7F}", #"\u{0}\u{7}\u{1B}[31m\u{7F}"#),
        ("\u{80}\u{9B}\u{9F}", #"\u{80}\u{9B}\u{9F}"#),
        (
            "\u{202A}\u{202E}\u{2066}\u{2069}\u{200E}\u{200F}\u{61C}",
            #"\u{202A}\u{202E}\u{2066}\u{2069}\u{200E}\u{200F}\u{61C}"#
        ),
    ]) func `steers nothing`(text: String, printable: String) {
        #expect(text.printable() == printable)
    }

    @Test func `is cut between characters`() {
        #expect("abcdef".printable(upTo: 6) == "abcdef")
        #expect("abcdef".printable(upTo: 5) == "abcde…")
        #expect("aéé".printable(upTo: 4) == "aé…")
        #expect("a\u{1B}b".printable(upTo: 6) == "a…")
    }
}
