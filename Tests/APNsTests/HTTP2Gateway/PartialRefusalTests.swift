import Testing

@testable import APNs

@Suite struct `A refusal that comes in parts` {
    /// Whether nothing more is awaited after each of these parts of the body, and the refusal then.
    private func read(_ parts: [String], status: Int = 400) -> (isComplete: [Bool], refusal: PartialRefusal) {
        var refusal = PartialRefusal(status: status)
        let isComplete = parts.map { part in
            let bytes = Array(part.utf8)
            return refusal.append(bytes.span)
        }
        return (isComplete, refusal)
    }

    @Test func `is complete with the object around its reason`() {
        let parts = [#"{"reason":"Unregistered","#, #""more":{}"#, "} "]
        #expect(read(parts, status: 410).isComplete == [false, false, true])
    }

    @Test func `is complete when as much has come as is kept`() {
        let (isComplete, refusal) = read([String(repeating: "x", count: 4095), "xx"])
        #expect(isComplete == [false, true])
        #expect(refusal.body.count == 4096)
    }

    /// A server that sent each byte in a frame of its own once kept a worker busy with the search.
    @Test func `byte by byte is searched for its reason a few times only`() {
        let parts = [#"{"a":""#] + (0..<4000).flatMap { _ in ["}", ""] }
        let (isComplete, refusal) = read(parts)
        #expect(!isComplete.contains(true))
        #expect(refusal.searchCount == PartialRefusal.maximumSearches)
    }
}
