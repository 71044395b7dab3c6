import QueueCore
import Testing

/// An accent that combines with a quotation mark makes it another character, but PostgreSQL sees the quotation mark.
@Suite struct `A text in SQL` {
    @Test(arguments: [
        ("vip", "'vip'"), ("", "''"), ("my \"vips\"", "'my \"vips\"'"), ("it's", "'it''s'"), ("''", "''''''"),
        ("a'\u{301}; --", "'a''\u{301}; --'"), (#"a\b"#, #"'a\b'"#),
    ])
    func `is a literal`(text: String, literal: String) {
        #expect(text.quotedLiteral == literal)
    }

    @Test(arguments: [
        ("acme", #""acme""#), ("My-App", #""My-App""#), (#"a"b"#, #""a""b""#), ("a\"\u{301}", "\"a\"\"\u{301}\""),
        ("it's", #""it's""#),
    ])
    func `is an identifier`(text: String, identifier: String) {
        #expect(text.quotedIdentifier == identifier)
    }
}
