package import PostgresStore
package import QueueCore
package import Terminal

/// The state of the screen: which table it shows, in which order, and what it asks. Keys change it; ``TopLoop`` sets
/// only `note` and `problem`.
package struct TopState: Sendable, Equatable {
    /// The tables, in the order of their keys.
    package enum View: Int, CaseIterable, Sendable {
        case queues, workers, answers
    }

    /// The order of the table of queues.
    package enum Order: String, ArgumentChoice {
        case oldest, waiting, sent
        case inFlight = "in-flight"
        case refused, name
    }

    /// The prompt in the last line, which receives the keys.
    package enum Prompt: Sendable, Equatable {
        /// The text that the names of queues must contain.
        case filter(String)
        case confirm(Change)
        case help
    }

    /// A change of a queue.
    package enum Change: Sendable, Equatable {
        case pause(QueueName)
        case resume(QueueName)
    }

    /// The action that a key requires.
    package enum Action: Sendable, Equatable {
        case none, quit
        /// Query the database, because other queues are shown now.
        case ask
        case change(Change)
    }

    package var view = View.queues
    package var order: Order
    /// The text that names of queues contain; nil for all queues.
    package var matching: String?
    package var selected: QueueName?
    package var prompt: Prompt?
    /// The last event, shown until the next key.
    package var note: String?
    /// Why the last query failed; nil if it succeeded.
    package var problem: String?
    /// Why this login may not pause queues; nil if it may.
    package let refusal: String?

    package init(order: Order = .oldest, matching: String? = nil, refusal: String? = nil) {
        self.order = order
        self.matching = matching
        self.refusal = refusal
    }

    /// The queues in the chosen order.
    package func sorted(_ queues: [QueueLoad]) -> [QueueLoad] {
        let oldest = { (queue: QueueLoad) in queue.oldest ?? .seconds(-1) }
        let isBefore: (QueueLoad, QueueLoad) -> Bool? = { one, other in
            switch order {
            case .oldest: oldest(one) == oldest(other) ? nil : oldest(one) > oldest(other)
            case .waiting: Self.compare(one, other, \.waitingRecipients)
            case .sent: Self.compare(one, other, \.sentPerSecond)
            case .inFlight: Self.compare(one, other, \.inFlight)
            case .refused: Self.compare(one, other) { $0.refusedPercent ?? -1 }
            case .name: nil
            }
        }
        return queues.map { ($0, "\($0.queue)") }.sorted { isBefore($0.0, $1.0) ?? ($0.1 < $1.1) }.map(\.0)
    }

    private static func compare<Figure: Comparable>(
        _ one: QueueLoad, _ other: QueueLoad, _ figure: (QueueLoad) -> Figure
    ) -> Bool? {
        figure(one) == figure(other) ? nil : figure(one) > figure(other)
    }

    // MARK: Keys

    /// Handles a key.
    /// - Parameters:
    ///   - queues: the queues that are shown, in any order.
    ///   - page: the number of a table's rows on the screen.
    package mutating func press(_ key: Key, among queues: [QueueLoad], page: Int) -> Action {
        note = nil
        switch prompt {
        case .filter(let text): return edit(text, key)
        case .confirm(let change): return answer(change, key)
        case .help:
            prompt = nil
            return key == .character("q") ? .quit : .none
        case nil: break
        }
        switch key {
        case .character("q"): return .quit
        case .character("?"), .character("h"): prompt = .help
        case .character("1"), .character("2"), .character("3"):
            if case .character(let digit) = key { view = digit == "1" ? .queues : digit == "2" ? .workers : .answers }
        case .tab: view = View(rawValue: (view.rawValue + 1) % View.allCases.count) ?? .queues
        case .character("s"): order = Order.allCases[(Order.allCases.firstIndex(of: order)! + 1) % Order.allCases.count]
        case .character("/"): prompt = .filter(matching ?? "")
        case .escape:
            guard matching != nil else { return .none }
            matching = nil
            return .ask
        case .character("r"): return .ask
        case .character("p"): askForChange(queues)
        default: move(key, sorted(queues), page: page)
        }
        return .none
    }

    private mutating func edit(_ text: String, _ key: Key) -> Action {
        switch key {
        case .enter:
            prompt = nil
            matching = text.isEmpty ? nil : text
            return .ask
        case .escape: prompt = nil
        case .backspace: prompt = .filter(String(text.dropLast()))
        case .character(let character) where text.count < 100: prompt = .filter(text + String(character))
        default: break
        }
        return .none
    }

    private mutating func answer(_ change: Change, _ key: Key) -> Action {
        prompt = nil
        guard key == .character("y") else {
            note = "nothing was changed"
            return .none
        }
        return .change(change)
    }

    private mutating func askForChange(_ queues: [QueueLoad]) {
        if let refusal {
            note = refusal
            return
        }
        guard view == .queues else {
            note = "go to the queues first: 1"
            return
        }
        let shown = sorted(queues)
        guard let load = shown.first(where: { $0.queue == selected }) ?? shown.first else { return }
        guard load.pausedReason != nil || !load.isSuspended else {
            note = "its tenant is suspended; resume it with: pushq-admin tenant resume \(load.queue.tenant)"
            return
        }
        prompt = .confirm(load.pausedReason == nil ? .pause(load.queue) : .resume(load.queue))
    }

    private mutating func move(_ key: Key, _ queues: [QueueLoad], page: Int) {
        guard view == .queues, !queues.isEmpty else { return }
        let place = queues.firstIndex { $0.queue == selected } ?? 0
        let next =
            switch key {
            case .up, .character("k"): place - 1
            case .down, .character("j"): place + 1
            case .pageUp: place - page
            case .pageDown: place + page
            case .home, .character("g"): 0
            case .end, .character("G"): queues.count - 1
            default: place
            }
        selected = queues[min(max(next, 0), queues.count - 1)].queue
    }
}
