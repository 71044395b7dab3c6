import QueueCore
import Testing

@testable import Workers

@Suite struct `Taking turns` {
    private func turns(_ queues: [FakeContender], limit: Int = 100_000) -> Turns<FakeContender> {
        var turns = Turns<FakeContender>(limit: limit)
        for queue in queues { turns.join(queue) }
        return turns
    }

    @Test func `sends of a tenant's queues in proportion to their weights, a few recipients at a time`() {
        let tenant = TenantShare()
        let queues = [3, 1].map { FakeContender(tenant, weight: $0, bulk: 10_000) }
        var turns = turns(queues)
        turns.beginRound(now: .now)
        for _ in 0..<400 {
            guard let turn = turns.next(now: .now) else { break }
            #expect(turn.room <= 16)
            turns.note(sent: turn.queue.send(turn), inSilence: 0, at: .now)
        }
        #expect(queues.map(\.sentInAll) == [4800, 1600])
    }

    @Test func `sends of fifty queues of one tenant as much as of the only queue of another`() {
        let many = TenantShare()
        let fifty = (0..<50).map { _ in FakeContender(many, weight: 10, bulk: 1_000_000) }
        let only = FakeContender(bulk: 1_000_000)
        var turns = turns(fifty + [only], limit: 10_000)
        for _ in 0..<100 {
            turns.round()
            for queue in fifty + [only] {
                for _ in 0..<queue.inFlight / 2 { turns.noteEnded(queue, isSilent: false) }
            }
        }
        let ofMany = fifty.map(\.sentInAll)
        let share = Double(ofMany.reduce(0, +)) / Double(turns.sent)
        #expect((0.48...0.52).contains(share), "\(share)")
        #expect(ofMany.min()! * 10 > ofMany.max()! * 8, "each of the fifty has its part")
    }

    @Test func `keeps room for a tenant's other queues, whose requests one of them leaves unanswered`() {
        let tenant = TenantShare()
        let silent = FakeContender(tenant, bulk: 100_000)
        var turns = turns([silent], limit: 1000)
        turns.round()
        let other = FakeContender(tenant, bulk: 100)
        turns.join(other)
        // The silent queue's answers are the only ones.
        turns.noteEnded(silent, isSilent: false)
        turns.noteEnded(silent, isSilent: false)
        for _ in 0..<100 {
            turns.round()
            for _ in 0..<other.inFlight { turns.noteEnded(other, isSilent: false) }
        }
        #expect(other.sentInAll == 100)
    }

    @Test func `sends urgent pushes of all queues before the others, and lets nobody go further ahead than 256`() {
        let urgent = FakeContender(urgent: 1000, bulk: 1000)
        let bulk = FakeContender(bulk: 1000)
        var turns = turns([bulk, urgent])
        let round = turns.round()
        let first = round.prefix { $0.isUrgent }
        #expect(first.map(\.sent).reduce(0, +) == 256)
        #expect(!first.contains { $0.queue === bulk })
        // The bulk queue then makes up for the urgent queue's lead.
        #expect(round.dropFirst(first.count).prefix(16).allSatisfy { $0.queue === bulk })
    }

    @Test func `lets a queue that was away catch up nothing`() {
        let steady = FakeContender(bulk: 100_000)
        var turns = turns([steady], limit: 1000)
        turns.round()
        let newcomer = FakeContender(bulk: 1000)
        turns.join(newcomer)
        for _ in 0..<800 { turns.noteEnded(steady, isSilent: false) }
        let before = steady.sentInAll
        turns.round()
        #expect(steady.sentInAll - before > 300)
        #expect(newcomer.sentInAll > 300)
    }

    @Test func `sends no more than there are permits, slots and room for`() {
        let paced = FakeContender(bulk: 1000)
        paced.permits = 7
        let full = FakeContender(bulk: 1000)
        full.slots = 20
        let resting = FakeContender(urgent: 5, bulk: 1000)
        resting.mayWork = false
        var turns = turns([paced, full, resting], limit: 5000)
        turns.round()
        #expect([paced, full, resting].map(\.sentInAll) == [7, 20, 0])
        #expect(turns.inFlight == 27 && turns.sent == 27)
        let alone = FakeContender(bulk: 100_000)
        turns.join(alone)
        for _ in 0..<10 { turns.round() }
        #expect(turns.inFlight <= 5000)
        #expect(alone.inFlight > 3000)
    }

    @Test func `does not count what awaits nothing but silence against the room`() {
        let silent = FakeContender(bulk: 10_000)
        var turns = turns([silent], limit: 100)
        for _ in 0..<5 {
            turns.beginRound(now: .now)
            while let turn = turns.next(now: .now) {
                let count = silent.inFlight < 2000 ? silent.send(turn) : 0
                turns.note(sent: count, inSilence: count, at: .now)
            }
        }
        #expect(turns.inFlight >= 2000)
        turns.noteEnded(silent, isSilent: true)
        let other = FakeContender(bulk: 10)
        turns.join(other)
        turns.round()
        #expect(other.sentInAll == 10)
    }

    @Test func `looks at no queue that waits for a connection, however many wait, until it may have one`() {
        // This queue also waits for answers that make room.
        let busy = FakeContender(bulk: 1_000_000)
        busy.slots = 100
        let waiting = (0..<9000).map { _ in
            let queue = FakeContender(bulk: 1)
            queue.slots = 0
            return queue
        }
        var turns = turns(waiting + [busy], limit: 1000)
        let now = ContinuousClock.now
        turns.round(now)
        let before = waiting.reduce(0) { $0 + $1.visits }
        for _ in 0..<100 {
            for _ in 0..<busy.inFlight / 2 { turns.noteEnded(busy, isSilent: false) }
            turns.round(now)
        }
        #expect(busy.sentInAll == 100 + 100 * 50)
        #expect(waiting.reduce(0) { $0 + $1.visits } == before)
        waiting[7].slots = 10
        turns.wake(waitingFor: ObjectIdentifier(waiting[7]))
        turns.round(now)
        #expect(waiting[7].sentInAll == 1)
        // No notice came for this queue.
        waiting[8].slots = 10
        turns.round(now + .seconds(1))
        #expect(waiting[8].sentInAll == 1)
    }

    @Test func `looks at no queue that waits for a permit, however many wait, until it may have one`() {
        let busy = FakeContender(bulk: 1_000_000)
        busy.slots = 100
        let now = ContinuousClock.now
        // Each queue's next permit is due a second after the previous queue's. The first queues have to be granted
        // some.
        let waiting = (0..<9000).map { number in
            let queue = FakeContender(bulk: 10)
            queue.permits = number < 10 ? 0 : 1
            queue.permitsFrom = now + .seconds(number)
            return queue
        }
        var turns = turns(waiting + [busy], limit: 1000)
        turns.round(now)
        #expect(turns.nextPermit == now + .seconds(10))
        let before = waiting.reduce(0) { $0 + $1.visits }
        for _ in 0..<100 {
            for _ in 0..<busy.inFlight / 2 { turns.noteEnded(busy, isSilent: false) }
            turns.round(now)
        }
        #expect(busy.sentInAll == 100 + 100 * 50)
        #expect(waiting.reduce(0) { $0 + $1.visits } == before)
        waiting[3].permits = 2
        waiting[3].permitsFrom = now
        turns.wake(waiting[3])
        turns.round(now)
        #expect(waiting[3].sentInAll == 2)
        #expect(waiting.reduce(0) { $0 + $1.visits } < before + 20)
        // Before all queues are looked at again.
        turns.round(now + .milliseconds(200))
        #expect(waiting.allSatisfy { $0 === waiting[3] || $0.sentInAll == 0 })
    }

    @Test func `looks at a queue again when its next permit is due, and at no other one`() {
        let now = ContinuousClock.now
        let waiting = (0..<2000).map { number in
            let queue = FakeContender(bulk: 10)
            queue.permits = 1
            queue.permitsFrom = now + .microseconds((number * 7919) % 2000 * 100)
            return queue
        }
        var turns = turns(waiting, limit: 10_000)
        turns.round(now)
        var rounds = 0
        while let next = turns.nextPermit, next < now + .milliseconds(240) {
            let before = waiting.reduce(0) { $0 + $1.visits }
            let sent = turns.round(next).map(\.queue)
            guard !sent.isEmpty else { break }
            #expect(waiting.reduce(0) { $0 + $1.visits } <= before + 6 * sent.count)
            rounds += 1
        }
        #expect(rounds > 1000)
        #expect(waiting.allSatisfy { $0.sentInAll == 1 })
    }

    @Test func `gives thousands of queues that can send their turns in order`() {
        let tenants = (0..<100).map { _ in TenantShare() }
        let queues = (0..<5000).map { FakeContender(tenants[$0 % 100], weight: [1, 2, 5][$0 % 3], bulk: 10_000) }
        var turns = turns(queues, limit: .max)
        turns.beginRound(now: .now)
        for _ in 0..<50_000 {
            guard let turn = turns.next(now: .now) else { break }
            turns.note(sent: turn.queue.send(turn), inSilence: 0, at: .now)
        }
        for (index, tenant) in tenants.enumerated() {
            let own = queues.filter { $0.tenant === tenant }
            let sent = own.reduce(0) { $0 + $1.sentInAll }
            #expect(abs(sent - 8000) <= 32, "tenant \(index): \(sent)")
            let weights = own.reduce(0) { $0 + $1.turn.weight }
            for queue in own {
                let due = Double(sent) * queue.turn.weight / weights
                #expect(abs(Double(queue.sentInAll) - due) <= 33, "\(queue.sentInAll) where \(due) are due")
            }
        }
    }

    @Test func `forgets queues that have nothing to send and nothing in flight`() {
        let queue = FakeContender(bulk: 5)
        var turns = turns([queue])
        turns.round()
        turns.round()
        #expect(turns.active.count == 1)
        for _ in 0..<5 { turns.noteEnded(queue, isSilent: false) }
        turns.round()
        #expect(turns.active.isEmpty && !queue.isActive)
    }
}
