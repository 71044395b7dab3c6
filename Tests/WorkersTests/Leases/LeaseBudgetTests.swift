import Testing

@testable import Workers

@Suite struct `How many leases a worker may hold` {
    private func budget(lease: Duration = .seconds(15)) -> LeaseBudget {
        LeaseBudget(interval: lease / 3, maximum: 20_000)
    }

    @Test func `is the setting, as long as renewing costs little`() {
        var budget = budget()
        #expect(budget.limit == 20_000)
        budget.noteRenewal(of: 1000, took: .milliseconds(10))
        #expect(budget.limit == 20_000)
    }

    @Test(arguments: [Duration.seconds(15), .seconds(3)])
    func `is what a fifth of the time between two renewals is enough for, once they cost more`(lease: Duration) {
        var budget = budget(lease: lease)
        for _ in 0..<10 { budget.noteRenewal(of: 1000, took: .milliseconds(200)) }
        let renewingAll = Duration.microseconds(200) * budget.limit
        #expect(renewingAll <= lease / 3 / 5)
        #expect(renewingAll > lease / 3 / 6)
    }

    @Test func `grows again when renewing gets cheaper`() {
        var budget = budget()
        budget.noteRenewal(of: 1000, took: .seconds(2))
        #expect(budget.limit < 1000)
        for _ in 0..<10 { budget.noteRenewal(of: 500, took: .milliseconds(5)) }
        #expect(budget.limit == 20_000)
    }

    /// A worker with a low limit renews few leases at a time.
    @Test func `grows again in a worker that renews few, though their cost is not told from that of the way`() {
        var budget = budget()
        budget.noteRenewal(of: 1000, took: .seconds(10))
        #expect(budget.limit == 200)
        for _ in 0..<10 { budget.noteRenewal(of: 40, took: .milliseconds(4)) }
        #expect(budget.limit > 5000)
    }

    @Test func `is what fits into one statement, however slow that is`() {
        var budget = budget()
        budget.noteRenewal(of: 1000, took: .seconds(1000))
        #expect(budget.limit == 200)
    }

    @Test func `is not told by a few renewals, which cost no more than the way to PostgreSQL`() {
        var budget = budget()
        budget.noteRenewal(of: 3, took: .milliseconds(100))
        #expect(budget.limit == 20_000)
    }

    @Test func `is kept to by giving back what is far beyond it`() {
        var budget = budget()
        #expect(budget.excess(of: 20_000) == 0)
        budget.noteRenewal(of: 1000, took: .milliseconds(100))
        #expect(budget.limit == 10_000)
        #expect(budget.excess(of: 12_000) == 0)
        #expect(budget.excess(of: 20_000) == 10_000)
    }
}
