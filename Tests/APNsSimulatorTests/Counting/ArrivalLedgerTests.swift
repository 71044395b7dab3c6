import Testing

@testable import APNsSimulator

/// A ledger as a class, so that `#expect` can contain calls that change it.
private final class Ledger {
    private var ledger = ArrivalLedger()

    func arrive(_ id: RequestID) -> Bool { ledger.arrive(id) }
    func answer(_ id: RequestID, isFinal: Bool) { ledger.answer(id, isFinal: isFinal) }
    func takeBack(_ id: RequestID) { ledger.takeBack(id) }
    var distinctCount: Int { ledger.distinctCount }
    var finalCount: Int { ledger.finalCount }
}

@Suite struct `The ledger of arrivals` {
    private let id = RequestID(high: 1, low: 2)

    @Test func `a retry after a transient refusal is no repeat`() {
        let ledger = Ledger()
        #expect(!ledger.arrive(id))
        ledger.answer(id, isFinal: false)
        #expect(!ledger.arrive(id))
        ledger.answer(id, isFinal: true)
        #expect(ledger.arrive(id))
        #expect(ledger.distinctCount == 1)
        #expect(ledger.finalCount == 1)
    }

    @Test func `an arrival after one that was never answered is a repeat`() {
        let ledger = Ledger()
        #expect(!ledger.arrive(id))
        #expect(ledger.arrive(id))
        ledger.answer(id, isFinal: false)
        ledger.takeBack(id)
        #expect(ledger.arrive(id))
    }

    @Test func `a final answer stays one`() {
        let ledger = Ledger()
        _ = ledger.arrive(id)
        ledger.answer(id, isFinal: true)
        ledger.answer(id, isFinal: false)
        ledger.takeBack(id)
        #expect(ledger.arrive(id))
        ledger.answer(id, isFinal: true)
        #expect(ledger.finalCount == 1)
    }

    @Test func `keeps a hundred thousand apart, also those that differ in few bits`() {
        let ledger = Ledger()
        let count: UInt64 = 50_000
        for number in 0..<count {
            #expect(!ledger.arrive(RequestID(high: number, low: 7)))
            #expect(!ledger.arrive(RequestID(high: 7 << 40, low: number << 48 | 1)))
        }
        #expect(ledger.distinctCount == Int(count) * 2)
        for number in 0..<count { #expect(ledger.arrive(RequestID(high: number, low: 7))) }
    }
}

@Suite struct `An apns-id` {
    @Test func `is read in either case and written as it was`() throws {
        let text = "123e4567-e89b-12d3-a456-426614174000"
        for form in [text, text.uppercased()] {
            let bytes = Array(form.utf8)
            let read = RequestID(bytes.span)
            let id = try #require(read)
            var written: [UInt8] = []
            id.write(into: &written)
            #expect(String(decoding: written, as: UTF8.self) == text)
        }
    }

    @Test(arguments: [
        "", "123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400",
        "123e4567-e89b-12d3-a456-42661417400g",
        "123e4567-e89b-12d3-a456426614174000-", "{23e4567-e89b-12d3-a456-426614174000}",
    ])
    func `is nothing else`(text: String) {
        let bytes = Array(text.utf8)
        let id = RequestID(bytes.span)
        #expect(id == nil)
    }
}
