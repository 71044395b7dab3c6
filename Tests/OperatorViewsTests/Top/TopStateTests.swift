import QueueCore
import Terminal
import Testing

@testable import OperatorViews
@testable import PostgresStore

@Suite struct `Keys on the live screen` {
    private let queues = TopSample.loads.queues

    private func press(_ keys: [Key], _ state: inout TopState) -> [TopState.Action] {
        keys.map { state.press($0, among: queues, page: 10) }
    }

    @Test func `choose the table and the order`() {
        var state = TopState()
        _ = press([.character("2")], &state)
        #expect(state.view == .workers)
        _ = press([.tab, .tab], &state)
        #expect(state.view == .queues)
        let first = { (order: TopState.Order) in
            TopState(order: order).sorted(queues).map(\.queue.app).map { $0.dropFirst("com.acme.".count) }
        }
        #expect(first(.oldest) == ["news", "shop", "radio", "idle"])
        #expect(first(.waiting) == ["shop", "news", "radio", "idle"])
        #expect(first(.sent) == ["shop", "idle", "news", "radio"])
        #expect(first(.inFlight) == ["shop", "idle", "news", "radio"])
        #expect(first(.refused) == ["shop", "idle", "news", "radio"])
        #expect(first(.name) == ["idle", "news", "radio", "shop"])
        for expected in TopState.Order.allCases.dropFirst() + [.oldest] {
            _ = press([.character("s")], &state)
            #expect(state.order == expected)
        }
    }

    @Test func `select a queue, which stays selected wherever it goes`() {
        var state = TopState()
        _ = press([.down], &state)
        #expect(state.selected?.app == "com.acme.shop")
        _ = press([.character("s")], &state)
        #expect(state.selected?.app == "com.acme.shop", "in another order it is the first")
        _ = press([.up], &state)
        #expect(state.selected?.app == "com.acme.shop")
        _ = press([.end], &state)
        #expect(state.selected?.app == "com.acme.idle")
        _ = press([.pageDown, .character("g")], &state)
        #expect(state.selected?.app == "com.acme.shop")
    }

    @Test func `pause a queue only after a question, and only with a yes`() {
        var state = TopState()
        #expect(press([.down, .character("p")], &state) == [.none, .none])
        #expect(state.prompt == .confirm(.pause(TopSample.queue("com.acme.shop"))))
        #expect(press([.enter], &state) == [.none])
        #expect(state.prompt == nil && state.note == "nothing was changed")
        #expect(
            press([.character("p"), .character("y")], &state)
                == [.none, .change(.pause(TopSample.queue("com.acme.shop")))])
        #expect(
            press([.home, .character("p"), .character("y")], &state).last
                == .change(.resume(TopSample.queue("com.acme.news"))))
    }

    @Test func `pause nothing for a login that may not, or where a pause would not help`() {
        var state = TopState(refusal: "shop_1 acts for a tenant: only operators pause queues")
        #expect(press([.character("p"), .character("y")], &state) == [.none, .none])
        #expect(state.prompt == nil)
        _ = press([.character("p")], &state)
        #expect(state.note == "shop_1 acts for a tenant: only operators pause queues")
        var queue = queues[3]
        queue.isSuspended = true
        var other = TopState()
        _ = other.press(.character("p"), among: [queue], page: 10)
        #expect(other.note == "its tenant is suspended; resume it with: pushq-admin tenant resume acme")
        #expect(other.prompt == nil)
    }

    @Test func `filter by a text, with q and p as letters of it`() {
        var state = TopState()
        let typed = "/qp!".map { Key.character($0) }
        #expect(press(typed + [.backspace, .enter], &state) == [.none, .none, .none, .none, .none, .ask])
        #expect(state.matching == "qp")
        #expect(press([.character("/"), .escape], &state) == [.none, .none])
        #expect(state.matching == "qp", "left as it was")
        #expect(press([.escape], &state) == [.ask])
        #expect(state.matching == nil)
    }

    @Test func `quit, also from the help`() {
        var state = TopState()
        #expect(press([.character("q")], &state) == [.quit])
        #expect(press([.character("?"), .character("x")], &state) == [.none, .none])
        #expect(state.prompt == nil)
        #expect(press([.character("?"), .character("q")], &state) == [.none, .quit])
    }
}
