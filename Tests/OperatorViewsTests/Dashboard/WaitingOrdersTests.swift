import Testing

@testable import OperatorViews

/// Operators whose orders wait for an order that takes long.
@Suite struct `Orders of operators that wait` {
    private let start = ContinuousClock.now

    private func turn(_ orders: inout WaitingOrders<Int>, after waited: Duration) -> String {
        switch orders.next(now: start + waited) {
        case .carryOut(let order): "carry out \(order)"
        case .giveUp(let order): "give up \(order)"
        case nil: "none"
        }
    }

    @Test func `are carried out in their order, and given up before their browsers stop waiting for them`() {
        var orders = WaitingOrders<Int>()
        for order in 1...3 { _ = orders.add(order, now: start + .seconds(order)) }
        let turns = [16, 18, 18, 18].map { turn(&orders, after: .seconds($0)) }
        #expect(turns == ["carry out 1", "give up 2", "carry out 3", "none"])
    }

    @Test func `are at most a hundred`() {
        var orders = WaitingOrders<Int>()
        let isTaken = (1...101).map { orders.add($0, now: start) }
        #expect(isTaken == Array(repeating: true, count: 100) + [false])
        _ = orders.next(now: start)
        let isTakenThen = orders.add(102, now: start)
        #expect(isTakenThen)
    }
}
