import Testing

@testable import APNsSimulator

@Suite struct `The wheel of answers` {
    @Test func `hands each over at its millisecond, however far away`() {
        var wheel = AnswerWheel()
        var expected: [Int: Int] = [:]
        for number in 0..<5000 {
            let dueAt = Int.random(in: 1...20_000)
            wheel.add(.init(dueAt: dueAt, session: 0, slot: number, generation: 0))
            expected[number] = dueAt
        }
        var now = 0
        while wheel.count > 0 {
            let before = now
            now += Int.random(in: 1...50)
            var due: [AnswerWheel.Entry] = []
            wheel.takeDue(at: now, into: &due)
            #expect(due.allSatisfy { $0.dueAt > before && $0.dueAt <= now })
            for entry in due { #expect(expected.removeValue(forKey: entry.slot) == entry.dueAt) }
        }
        #expect(expected.isEmpty)
    }

    @Test func `takes what is overdue at the next turn`() {
        var wheel = AnswerWheel()
        var due: [AnswerWheel.Entry] = []
        wheel.takeDue(at: 100, into: &due)
        wheel.add(.init(dueAt: 50, session: 1, slot: 2, generation: 3))
        wheel.takeDue(at: 100, into: &due)
        #expect(due.isEmpty)
        wheel.takeDue(at: 101, into: &due)
        #expect(due.map(\.slot) == [2])
    }
}
