import Testing

@testable import APNs

@Suite struct `The window of sent notifications` {
    /// A window with `count` notifications of ten bytes each, with tickets from 0.
    private func window(_ count: Int, firstIdentifier: UInt32 = 1) -> SentWindow {
        var window = SentWindow(firstIdentifier: firstIdentifier)
        for ticket in 0..<count { window.add(ticket: UInt64(ticket), end: UInt64(ticket + 1) * 10) }
        return window
    }

    @Test func `finds a notification by its identifier`() {
        let window = window(5)
        #expect((1...5).map { window.place(of: $0) } == (0...4).map { .waiting(index: $0) })
        #expect(window.place(of: 6) == .unknown)
        #expect(window.place(of: 0) == .unknown)
        #expect(window.place(of: .max) == .unknown)
    }

    @Test func `goes on with 0 behind the last identifier`() {
        var window = window(4, firstIdentifier: .max - 1)
        #expect(window.next == 2)
        #expect(window.place(of: .max - 1) == .waiting(index: 0))
        #expect(window.place(of: 0) == .waiting(index: 2))
        #expect(window.place(of: 1) == .waiting(index: 3))
        #expect(window.place(of: 2) == .unknown)
        _ = window.takeOldest()
        #expect(window.place(of: .max - 1) == .confirmed(laterCount: 0))
        #expect(window.place(of: .max - 2) == .unknown)
    }

    @Test func `confirms what left a grace ago and was acknowledged, in order`() {
        var window = window(4)
        window.noteLeft(upTo: 20, now: 100)
        window.noteLeft(upTo: 39, now: 200)
        #expect(window.takeConfirmed(leftBy: 99, before: 40) == nil)
        #expect(window.takeConfirmed(leftBy: 100, before: 10)?.ticket == 0)
        #expect(window.takeConfirmed(leftBy: 100, before: 10) == nil)
        #expect(window.takeConfirmed(leftBy: 100, before: 20)?.ticket == 1)
        #expect(window.takeConfirmed(leftBy: 100, before: 40) == nil)
        #expect(window.takeConfirmed(leftBy: 200, before: 40)?.ticket == 2)
        // The last byte of this notification has not left.
        #expect(window.takeConfirmed(leftBy: 1000, before: 40) == nil)
        #expect(window.count == 1)
        let last = window.takeOldest()
        #expect(last?.ticket == 3)
        #expect(last?.leftAt == nil)
    }

    @Test func `has a limit as long as one is in it that may have few others beside it`() {
        var window = SentWindow()
        for (ticket, limit) in [(0, Int.max), (1, 50), (2, 5), (3, 5), (4, .max)] {
            window.add(ticket: UInt64(ticket), end: UInt64(ticket), limit: limit)
        }
        let limits = (0..<5).map { _ in
            _ = window.takeOldest()
            return window.limit
        }
        #expect(limits == [5, 5, 5, .max, .max])
    }

    @Test func `stays small while much goes through`() {
        var window = SentWindow()
        for ticket in 0..<100_000 as Range<UInt64> {
            window.add(ticket: ticket, end: ticket + 1)
            window.noteLeft(upTo: ticket + 1, now: ticket)
            guard ticket >= 300 else { continue }
            let oldest = window.takeConfirmed(leftBy: ticket, before: ticket + 1)?.ticket
            if oldest != ticket - 300 { Issue.record("\(String(describing: oldest)) was the oldest at \(ticket)") }
        }
        #expect(window.count == 300)
        #expect(window.place(of: 100_000) == .waiting(index: 299))
        #expect(window.place(of: 99_700) == .confirmed(laterCount: 0))
        #expect(window.place(of: 99_600) == .confirmed(laterCount: 100))
    }
}
