import TestSupport
import Testing

@testable import QueueCore

@Suite struct `A breaker` {
    private let start = ContinuousClock.now

    /// A breaker with a clock that the test moves, and a log of its input.
    private struct Dialogue {
        var breaker = Breaker()
        var now: ContinuousClock.Instant
        var generator = SystemRandomNumberGenerator()

        init(from now: ContinuousClock.Instant) { self.now = now }

        mutating func pass(_ time: Duration) { now += time }

        mutating func serve(_ count: Int = 1) {
            for _ in 0..<count { breaker.noteServed(sentAt: now, now: now) }
        }

        mutating func refuse(
            _ recipient: Int64, subject: Breaker.TransientRefusal.Subject = .server, retryAfter: Duration? = nil,
            sentAt: ContinuousClock.Instant? = nil
        ) {
            breaker.noteRefused(
                .init(
                    recipient: recipient, subject: subject, retryAfter: retryAfter,
                    sentAt: sentAt ?? now), now: now, using: &generator)
        }

        mutating func refuseAgain(_ recipients: Range<Int64>) {
            for recipient in recipients {
                breaker.noteRefused(
                    .init(recipient: recipient, isRepeated: true, retryAfter: nil, sentAt: now), now: now,
                    using: &generator)
            }
        }

        mutating func reset(_ recipients: Range<Int64>, isRepeated: Bool = false, inFlight: Int) {
            for recipient in recipients where breaker.isClosed {
                breaker.noteRefused(
                    .init(
                        recipient: recipient, subject: .reset(inFlight: inFlight), isRepeated: isRepeated,
                        retryAfter: nil, sentAt: now),
                    now: now, using: &generator)
            }
        }

        mutating func rest() { breaker.noteRest(sentAt: now, now: now, using: &generator) }

        mutating func beSilent(sentAt: ContinuousClock.Instant? = nil) {
            breaker.noteSilence(sentAt: sentAt ?? now, now: now, using: &generator)
        }

        var room: Int { breaker.room(inFlight: 0, now: now) }
        var wait: Duration? {
            if case .open(let until) = breaker.phase { now.duration(to: until) } else { nil }
        }
    }

    /// Returns a breaker that has opened because of refused recipients.
    private func opened() -> Dialogue {
        var dialogue = Dialogue(from: start)
        for recipient in 0..<60 where dialogue.breaker.isClosed { dialogue.refuse(Int64(recipient)) }
        #expect(!dialogue.breaker.isClosed)
        return dialogue
    }

    @Test func `that opened because of silence lets one push probe, ever later as long as that has no answer`() {
        var dialogue = Dialogue(from: start)
        dialogue.beSilent()
        #expect(dialogue.room == 0)
        var waits: [Duration] = []
        for _ in 0..<4 {
            guard let wait = dialogue.wait else { return #expect(Bool(false), "it is open") }
            waits.append(wait)
            // Further connections that lost pushes which were sent before say nothing new.
            dialogue.beSilent(sentAt: start)
            #expect(dialogue.wait == wait)
            dialogue.pass(wait)
            #expect(dialogue.room == 1)
            let probedAt = dialogue.now
            dialogue.pass(.seconds(10))
            dialogue.beSilent(sentAt: probedAt)
        }
        #expect(zip(waits, waits.dropFirst()).allSatisfy { $1 > $0 }, "\(waits)")
    }

    @Test func `that opened because of silence recovers with any answer, and one that opened otherwise does not`() {
        var (silent, refused) = (Dialogue(from: start), opened())
        silent.beSilent()
        for recovers in [true, false] {
            var dialogue = recovers ? silent : refused
            dialogue.breaker.noteServed(sentAt: start - .seconds(20), now: dialogue.now)
            #expect((dialogue.room > 0) == recovers)
        }
        silent.breaker.noteReached(now: silent.now)
        refused.breaker.noteReached(now: refused.now)
        #expect(silent.room == 1 && refused.room == 0, "a new connection may be the end of a silence")
        silent.serve()
        silent.pass(.seconds(10))
        silent.beSilent(sentAt: start - .seconds(1))
        #expect(silent.room > 0, "pushes from before the recovery are still not answered")
        let before = silent.room
        for _ in 0..<50 { silent.breaker.noteServed(sentAt: start - .seconds(20), now: silent.now) }
        #expect(silent.room == before + 50, "late answers show that APNs serves")
        silent.beSilent()
        #expect(silent.room == 0)
    }

    @Test func `opens for resets only when there are as many as pushes in flight, because answers may come later`() {
        var dialogue = Dialogue(from: start)
        dialogue.reset(0..<100, inFlight: 900)
        #expect(dialogue.breaker.isClosed)
        dialogue.serve(900)
        dialogue.reset(100..<200, inFlight: 50)
        #expect(!dialogue.breaker.isClosed)
    }

    @Test(arguments: [(80, true), (60, true), (40, false), (5, false)])
    func `opens for resets of most pushes, though some are served, and not for those of fewer`(
        percent: Int, opens: Bool
    ) {
        var dialogue = Dialogue(from: start)
        // The resets come first, as those of pushes in flight may.
        for round in 0..<20 where dialogue.breaker.isClosed {
            let first = Int64(round * 1000)
            dialogue.reset(first..<first + Int64(percent * 10), inFlight: 1000)
            if dialogue.breaker.isClosed { dialogue.serve(1000 - percent * 10) }
        }
        #expect(dialogue.breaker.isClosed != opens)
    }

    @Test func `lets nothing probe sooner if its owner cannot choose pushes that were not refused before`() {
        var dialogue = opened()
        dialogue.breaker = Breaker(choosesProbes: false)
        for recipient in 0..<60 where dialogue.breaker.isClosed { dialogue.refuse(Int64(recipient)) }
        dialogue.pass(dialogue.wait!)
        #expect(dialogue.room == 1)
        dialogue.refuseAgain(0..<1)
        #expect(dialogue.room == 0)
        dialogue.pass(dialogue.wait! - .milliseconds(1))
        #expect(dialogue.room == 0)
    }

    @Test func `opens soon for resets that are repeated, if the first of them began the row, and else not`() {
        var dialogue = Dialogue(from: start)
        dialogue.serve()
        dialogue.reset(0..<3, isRepeated: true, inFlight: 0)
        dialogue.pass(.seconds(30))
        dialogue.reset(0..<100, isRepeated: true, inFlight: 0)
        #expect(dialogue.breaker.isClosed)
        dialogue.reset(0..<3, inFlight: 0)
        dialogue.pass(.seconds(1))
        dialogue.reset(0..<3, isRepeated: true, inFlight: 0)
        #expect(!dialogue.breaker.isClosed)
    }

    @Test func `opens on an outage, tries with one push, and lets more out with each that is served`() {
        var dialogue = Dialogue(from: start)
        dialogue.serve(1000)
        var spent = 0
        for recipient in 0..<100 where dialogue.breaker.isClosed {
            dialogue.refuse(Int64(recipient))
            spent += 1
        }
        #expect((30...40).contains(spent), "half of the last answers or so: \(spent)")
        #expect(dialogue.room == 0)

        // A second later, one push may try. No other may while it is in flight.
        #expect(dialogue.wait.map { (.seconds(1) ... .seconds(1.2)).contains($0) } == true)
        dialogue.pass(.seconds(1.2))
        #expect(dialogue.room == 1)
        #expect(dialogue.breaker.room(inFlight: 1, now: dialogue.now) == 0)
        dialogue.refuse(200)
        #expect(dialogue.wait.map { (.seconds(2) ... .seconds(2.4)).contains($0) } == true)
        dialogue.pass(.seconds(2.4))

        dialogue.serve()
        #expect(dialogue.room == 2)
        dialogue.serve(8)
        #expect(dialogue.room == 10)
        #expect(!dialogue.breaker.isClosed)
        dialogue.serve(Breaker.servedOfRecovery)
        #expect(dialogue.breaker.isClosed)
        #expect(dialogue.room == .max)
    }

    @Test func `ends its recovery by itself where nothing more is sent, after a minute`() {
        var dialogue = opened()
        dialogue.pass(.seconds(1.2))
        dialogue.serve()
        #expect(dialogue.breaker.endOfQuietRecovery == dialogue.now + .seconds(60))
        dialogue.pass(.seconds(59))
        dialogue.breaker.noteQuiet(now: dialogue.now)
        #expect(!dialogue.breaker.isClosed)
        dialogue.pass(.seconds(1))
        dialogue.breaker.noteQuiet(now: dialogue.now)
        #expect(dialogue.breaker.isClosed)
        #expect(dialogue.breaker.endOfQuietRecovery == nil)
    }

    @Test func `ends nothing by itself before a push was served, or where more are refused`() {
        var dialogue = opened()
        #expect(dialogue.breaker.endOfQuietRecovery == nil)
        dialogue.pass(.seconds(1.2))
        dialogue.serve()
        dialogue.refuse(200)
        #expect(dialogue.breaker.endOfQuietRecovery == nil)
        dialogue.pass(.seconds(600))
        dialogue.breaker.noteQuiet(now: dialogue.now)
        #expect(!dialogue.breaker.isClosed)
    }

    @Test func `tries ever more seldom, and once a minute in the end`() {
        var dialogue = opened()
        var waits: [Duration] = []
        for recipient in 0..<12 {
            waits.append(dialogue.wait ?? .zero)
            dialogue.pass(waits.last ?? .zero)
            dialogue.refuse(Int64(100 + recipient))
        }
        for (index, wait) in waits.enumerated() {
            let least = Duration.seconds(min(60, 1 << index))
            #expect((least...least * 7 / 6).contains(wait), "wait \(index) is \(wait)")
        }
    }

    @Test func `that fails in its recovery opens again, and waits longer than before`() {
        var dialogue = opened()
        dialogue.pass(.seconds(2))
        dialogue.serve(3)
        var refusals = 0
        while dialogue.wait == nil, refusals < 100 {
            dialogue.refuse(Int64(500 + refusals))
            refusals += 1
        }
        #expect(refusals <= 16)
        #expect(dialogue.breaker.failures == 2)
        #expect(dialogue.wait.map { $0 >= .seconds(2) } == true)
    }

    @Test func `recovers beside pushes that are always refused, and opens again where nothing else is sent`() {
        var dialogue = opened()
        dialogue.pass(.seconds(2))
        dialogue.serve(2)
        for _ in 0..<30 {
            dialogue.refuseAgain(0..<5)
            #expect(dialogue.room > 0)
            dialogue.serve(3)
        }
        var refusals = 0
        while dialogue.wait == nil, refusals < 100 {
            dialogue.refuseAgain(0..<1)
            refusals += 1
        }
        #expect((10...30).contains(refusals))
    }

    @Test func `stays closed for one push that is always refused`() {
        var dialogue = Dialogue(from: start)
        for _ in 0..<10_000 {
            dialogue.refuse(7)
            dialogue.pass(.milliseconds(300))
        }
        #expect(dialogue.breaker.isClosed)
    }

    @Test func `opens for a few pushes that are all refused for a while, where there are no others`() {
        var dialogue = Dialogue(from: start)
        for attempt in 0..<3 {
            for recipient in 0..<3 { dialogue.refuse(Int64(recipient)) }
            if attempt < 1 { #expect(dialogue.breaker.isClosed) }
            dialogue.pass(.milliseconds(600))
        }
        #expect(!dialogue.breaker.isClosed)
    }

    @Test func `opens for one burst whose retries are refused, too, while nothing is served`() {
        var dialogue = Dialogue(from: start)
        for recipient in 0..<Int64(10) { dialogue.refuse(recipient) }
        dialogue.pass(.milliseconds(1100))
        dialogue.refuseAgain(0..<10)
        #expect(dialogue.breaker.isClosed)
        dialogue.pass(.seconds(19))
        dialogue.refuseAgain(0..<1)
        #expect(!dialogue.breaker.isClosed)
    }

    @Test func `stays closed for a burst that is refused for what it is, while others are served now and then`() {
        var dialogue = Dialogue(from: start)
        for recipient in 0..<Int64(12) { dialogue.refuse(recipient) }
        for second in 0..<600 {
            dialogue.pass(.seconds(1))
            if second % 15 == 14 { dialogue.serve() } else { dialogue.refuseAgain(0..<3) }
            #expect(dialogue.breaker.isClosed)
        }
    }

    @Test func `stays closed for the retries that are left at the end of a campaign`() {
        var dialogue = Dialogue(from: start)
        for round in 0..<1000 {
            if round % 50 == 0 { dialogue.refuse(Int64(round)) } else { dialogue.serve() }
        }
        for attempt in 0..<9 {
            dialogue.pass(.seconds(1 << attempt))
            dialogue.refuseAgain(0..<20)
        }
        #expect(dialogue.breaker.isClosed)
        // The same if the last two refusals were the first of a row.
        dialogue.refuse(2000)
        dialogue.refuse(2001)
        for attempt in 0..<9 {
            dialogue.pass(.seconds(1 << attempt))
            dialogue.refuseAgain(0..<20)
            dialogue.refuseAgain(2000..<2002)
        }
        #expect(dialogue.breaker.isClosed)
    }

    @Test func `takes what is about recipients for an outage only if they are many`() {
        var few = Dialogue(from: start)
        for round in 0..<1000 {
            few.refuse(Int64(round % 5), subject: .recipient, retryAfter: .seconds(60))
            few.pass(.milliseconds(100))
        }
        #expect(few.breaker.isClosed)
        var many = Dialogue(from: start)
        for recipient in 0..<60 { many.refuse(Int64(recipient), subject: .recipient) }
        #expect(!many.breaker.isClosed)
    }

    @Test func `takes a server that goes away for an outage only if every other one does, too`() {
        func refuse(_ dialogue: inout Dialogue, _ recipient: Int64) {
            dialogue.breaker.noteRefused(
                .init(recipient: recipient, subject: .connection, retryAfter: nil, sentAt: dialogue.now),
                now: dialogue.now, using: &dialogue.generator)
        }
        var one = Dialogue(from: start)
        for recipient in 0..<500 { refuse(&one, Int64(recipient)) }
        #expect(one.breaker.isClosed)
        var all = Dialogue(from: start)
        for recipient in 0..<5 {
            refuse(&all, Int64(recipient))
            all.pass(.milliseconds(400))
        }
        #expect(!all.breaker.isClosed)
    }

    @Test func `stays closed while most are served`() {
        var dialogue = Dialogue(from: start)
        for round in 0..<10_000 {
            if round % 4 == 0 { dialogue.refuse(Int64(round)) } else { dialogue.serve() }
            dialogue.pass(.milliseconds(10))
        }
        #expect(dialogue.breaker.isClosed)
    }

    @Test func `knows a gateway that takes nearly all from one that refuses many, and from one that it tries`() {
        var dialogue = Dialogue(from: start)
        #expect(dialogue.breaker.acceptsNearlyAll, "nothing is known against it")
        for round in 0..<1000 {
            if round % 40 == 0 { dialogue.refuse(Int64(round)) } else { dialogue.serve() }
            #expect(dialogue.breaker.acceptsNearlyAll)
        }
        for round in 0..<200 { if round % 4 == 0 { dialogue.refuse(Int64(round)) } else { dialogue.serve() } }
        #expect(!dialogue.breaker.acceptsNearlyAll)
        #expect(dialogue.breaker.isClosed)
        dialogue.serve(200)
        #expect(dialogue.breaker.acceptsNearlyAll)

        var outage = opened()
        #expect(!outage.breaker.acceptsNearlyAll)
        outage.pass(.seconds(2))
        outage.serve()
        #expect(!outage.breaker.acceptsNearlyAll, "it recovers, and its share of refusals begins anew")
    }

    @Test func `waits as long as the server asks, up to a minute, and not for what one recipient was told`() {
        var dialogue = opened()
        dialogue.refuse(900, subject: .recipient, retryAfter: .seconds(3600))
        #expect(dialogue.wait.map { $0 < .seconds(2) } == true)
        dialogue.refuse(901, retryAfter: .seconds(40))
        #expect(dialogue.wait.map { $0 >= .seconds(40) && $0 < .seconds(41) } == true)
        dialogue.pass(.seconds(40))
        dialogue.refuse(902, retryAfter: .seconds(50))
        #expect(dialogue.wait.map { $0 >= .seconds(50) && $0 < .seconds(51) } == true)
        dialogue.refuse(903, retryAfter: .seconds(3600))
        #expect(dialogue.wait.map { $0 >= .seconds(60) && $0 < .seconds(61) } == true)
    }

    @Test func `learns nothing from answers to what was sent before it opened`() {
        var dialogue = opened()
        let before = start - .seconds(1)
        dialogue.pass(.seconds(2))
        for recipient in 0..<100 { dialogue.refuse(Int64(recipient), sentAt: before) }
        #expect(dialogue.breaker.failures == 1)
        dialogue.breaker.noteServed(sentAt: before, now: dialogue.now)
        #expect(dialogue.room == 1)
    }

    @Test func `rests at one word about the key`() {
        var dialogue = Dialogue(from: start)
        dialogue.serve(100)
        dialogue.rest()
        #expect(dialogue.room == 0)
        dialogue.rest()
        #expect(dialogue.breaker.failures == 1, "one burst is one word")
        dialogue.pass(.seconds(2))
        dialogue.rest()
        #expect(dialogue.breaker.failures == 2)
    }

    /// Simulates two hundred servers that work and fail at random, for ten minutes each.
    @Test(arguments: UInt64(1)...20) func `never hammers, never stands still, and closes when all is well`(seed: UInt64)
    {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<10 {
            var breaker = Breaker()
            var now = start
            var inFlight: [(sentAt: ContinuousClock.Instant, due: ContinuousClock.Instant)] = []
            var sentWhileOpen: [ContinuousClock.Instant] = []
            var failingShare = 0.0
            var nextChange = now
            let end = start + .seconds(600)
            while now < end {
                if now >= nextChange {
                    failingShare = [0, 0, 0.1, 0.7, 1, 1].randomElement(using: &generator)!
                    nextChange = now + .seconds(.random(in: 1...120, using: &generator))
                }
                for answer in inFlight where answer.due <= now {
                    if Double.random(in: 0..<1, using: &generator) < failingShare {
                        breaker.noteRefused(
                            .init(
                                recipient: .random(in: 0...9999, using: &generator),
                                subject: Bool.random(using: &generator) ? .recipient : .server, retryAfter: nil,
                                sentAt: answer.sentAt), now: now, using: &generator)
                    } else {
                        breaker.noteServed(sentAt: answer.sentAt, now: now)
                    }
                }
                inFlight.removeAll { $0.due <= now }
                let room = min(breaker.room(inFlight: inFlight.count, now: now), 20 - inFlight.count)
                if case .open = breaker.phase, room > 0 {
                    #expect(room == 1)
                    sentWhileOpen.append(now)
                }
                #expect(!breaker.isOpen(at: now) || room == 0)
                for _ in 0..<max(0, room) {
                    inFlight.append((now, now + .milliseconds(.random(in: 20...400, using: &generator))))
                }
                // A push can always be sent within little more than a minute, or is in flight.
                if case .open(let until) = breaker.phase { #expect(now.duration(to: until) <= .seconds(71)) }
                now += .milliseconds(100)
            }
            for (one, next) in zip(sentWhileOpen, sentWhileOpen.dropFirst()) {
                #expect(one.duration(to: next) >= .seconds(1))
            }
            for _ in 0..<2000 {
                now += .milliseconds(100)
                let room = min(20, breaker.room(inFlight: 0, now: now))
                for _ in 0..<room { breaker.noteServed(sentAt: now, now: now) }
            }
            #expect(breaker.isClosed)
        }
    }
}
