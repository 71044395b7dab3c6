import Testing

@testable import HTTP2

@Suite struct `The table of streams` {
    @Test func `keeps what a dictionary would keep`() {
        var table = StreamTable()
        var model: [UInt32: UInt64] = [:]
        var random = SystemRandomNumberGenerator()
        var nextID: UInt32 = 1
        for step in 0..<20_000 {
            // Streams open in order and close in any order. A few stay open for long.
            if model.count < 5 || model.count < 300 && Bool.random(using: &random) {
                _ = table.insert(Stream(id: nextID, tag: UInt64(step)))
                model[nextID] = UInt64(step)
                nextID += 2
            } else if let id = model.keys.randomElement() {
                guard let index = table.index(of: id) else {
                    Issue.record("stream \(id) is missing")
                    return
                }
                #expect(table[index].tag == model[id])
                table.remove(at: index)
                model[id] = nil
                #expect(table.index(of: id) == nil)
            }
        }
        #expect(table.count == model.count)
        #expect(table.ids == model.keys.sorted())
        for (id, tag) in model { #expect(table.index(of: id).map { table[$0].tag } == tag) }
    }
}
