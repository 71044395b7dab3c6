import QueueCore
import Testing

@Suite struct `Words for a shell` {
    @Test(arguments: [
        ("acme/com.acme.shop/production", "acme/com.acme.shop/production"), ("sale-1_2@%+,=", "sale-1_2@%+,="),
        ("", "''"), ("my sale", "'my sale'"), ("$(id); `id`", "'$(id); `id`'"), ("it's", #"'it'\''s'"#),
        ("Größe", "'Größe'"), ("a\nb", "'a\nb'"), ("a'\u{301}; id #", "'a'\\''\u{301}; id #'"),
    ])
    func `are quoted unless every shell takes them as they are`(word: String, quoted: String) {
        #expect(ShellWords.quoted(word) == quoted)
    }

    @Test(arguments: [
        ("sale", "sale"), ("my sale", "'my sale'"), ("-20%-friday", "-- -20%-friday"), ("--json", "-- --json"),
        ("-a b", "-- '-a b'"),
    ])
    func `are no options, even if they begin with a hyphen`(word: String, argument: String) {
        #expect(ShellWords.argument(word) == argument)
    }

    @Test func `are divided as a shell does`() {
        #expect(ShellWords.split("send 'a b' --x \"c 'd'\" e") == ["send", "a b", "--x", "c 'd'", "e"])
        #expect(ShellWords.split("''") == [""])
    }
}
