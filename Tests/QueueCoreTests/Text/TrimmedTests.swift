import QueueCore
import Testing

@Suite struct `Text with space around it` {
    @Test(arguments: [
        ("", "", ""), (" \n\t", "", " \n\t"), ("a b", "a b", "a b"), ("\r\n a \n b\n\n", "a \n b", " a \n b"),
        ("\u{A0}é\u{2028}", "é", "\u{A0}é"),
    ]) func `loses it`(text: String, trimmed: String, withoutLineEnds: String) {
        #expect(text.trimmed() == trimmed)
        #expect(text.trimmingLineEnds() == withoutLineEnds)
    }
}
