import Testing

@testable import PostgresStore
@testable import Workers

@Suite struct `Auditing leases` {
    private func make() -> LeaseAuditState {
        LeaseAuditState(pause: .seconds(5), shortPause: .milliseconds(500))
    }

    @Test func `is done after a pause, if anything was claimed since the last time`() {
        var state = make()
        let steps = [state.next(), state.next()]
        #expect(steps == [.wait(.seconds(5)), .wait(.seconds(5))])
        state.noteClaimBegun()
        let ask = state.next()
        #expect(ask == .ask)
        state.noteClaimEnded(isAnswered: true)
        state.noteFound(0)
        let quiet = [state.next(), state.next()]
        #expect(quiet == [.wait(.seconds(5)), .wait(.seconds(5))])
    }

    @Test func `is done at once where a claim had no answer`() {
        var state = make()
        let pause = state.next()
        #expect(pause == .wait(.seconds(5)))
        state.noteClaimBegun()
        state.noteClaimEnded(isAnswered: false)
        let ask = state.next()
        #expect(ask == .ask)
    }

    @Test func `is done again if the answer to a claim is lost while it is under way`() {
        var state = make()
        _ = state.next()
        state.noteClaimBegun()
        let ask = state.next()
        #expect(ask == .ask)
        // PostgreSQL may have carried out the claim after it looked for leases.
        state.noteClaimEnded(isAnswered: false)
        state.noteFound(0)
        let steps = [state.next(), state.next()]
        #expect(steps == [.wait(.milliseconds(500)), .ask])
    }

    @Test func `gives nothing back before the claims have ended that it may have seen`() {
        var state = make()
        _ = state.next()
        state.noteDoubt()
        state.noteClaimBegun()
        let ask = state.next()
        #expect(ask == .ask)
        state.noteFound(1)
        let wait = state.next()
        #expect(wait == .awaitClaim)
        // The answer cannot contain a claim that begins now.
        state.noteClaimBegun()
        state.noteClaimEnded(isAnswered: true)
        let back = state.next()
        #expect(back == .giveBack)
        state.noteGivenBack(true)
    }

    @Test func `is repeated soon while it is not answered, or what was found could not be given back`() {
        var state = make()
        _ = state.next()
        state.noteDoubt()
        _ = state.next()
        state.noteNoAnswer()
        let again = [state.next(), state.next()]
        #expect(again == [.wait(.milliseconds(500)), .ask])
        state.noteFound(1)
        _ = state.next()
        state.noteGivenBack(false)
        let repeated = [state.next(), state.next()]
        #expect(repeated == [.wait(.milliseconds(500)), .ask])
    }

    @Test func `ends at the order to stop, after one more time if there is a reason`() {
        var idle = make()
        _ = idle.next()
        idle.stop()
        let end = idle.next()
        #expect(end == .end)
        #expect(idle.hasEnded)

        var due = make()
        _ = due.next()
        due.noteDoubt()
        due.stop()
        let ask = due.next()
        #expect(ask == .ask)
        due.noteNoAnswer()
        #expect(due.hasEnded, "the lease's end will bring it back")
    }

    @Test(arguments: [false, true])
    func `gives back what is not held with its old watermark, unless it may have been served before a failover`(
        timelineChanged: Bool
    ) {
        let found = [1, 2].map { id in
            UnknownLease(
                progress: LeaseProgress(
                    key: LeaseKey(queueID: 1, jobID: id, epoch: 1), watermark: 3, outcomes: [1, 0, 0]), losses: 0)
        }
        let held: Set = [found[0].progress.key]
        let back = LeaseAuditState.strangers(among: found, held: held, timelineChanged: timelineChanged)
        #expect(back.map(\.progress.key.jobID) == [2])
        #expect(back.map(\.progress.watermark) == [timelineChanged ? 3 : 1])
        #expect(back.map(\.addedLosses) == [timelineChanged ? 1 : 0])
    }
}
