import Testing

@testable import OperatorViews

@Suite struct `A value in the query of a page` {
    @Test(arguments: [
        ("", ""), ("acme", "acme"), ("acme%2Fcom.acme%20shop", "acme/com.acme shop"), ("100%25", "100%"),
        ("Gr%C3%BC%c3%9Fe", "Grüße"),
    ]) func `is what its browser wrote`(text: String, value: String) {
        #expect(text.percentDecoded == value)
    }

    @Test(arguments: ["%", "%2", "%zz", "%+1", "a%-1b", "%C3", "%FF"])
    func `is refused where it is none`(text: String) {
        #expect(text.percentDecoded == nil)
    }
}
