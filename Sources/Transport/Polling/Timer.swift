/// An action that an ``EventLoop`` runs at a certain time. Belongs to the loop's thread.
///
/// Cancelling only sets a mark. The heap drops a cancelled timer when it comes to the top, or when more than half of
/// the heap is cancelled. So a deadline may be set and cancelled for every operation.
package final class Timer {
    /// When the action is due.
    package let deadline: ContinuousClock.Instant
    /// The order of scheduling, which decides between equal deadlines.
    fileprivate let order: UInt64
    private var action: (() -> Void)?
    private let heap: TimerHeap

    fileprivate init(
        deadline: ContinuousClock.Instant, order: UInt64, heap: TimerHeap, action: @escaping () -> Void
    ) {
        self.deadline = deadline
        self.order = order
        self.heap = heap
        self.action = action
    }

    /// Whether the action has neither run nor been cancelled.
    package var isPending: Bool { action != nil }

    /// Cancels the action. Does nothing if it has run or was cancelled before.
    package func cancel() {
        guard action != nil else { return }
        action = nil
        heap.noteCancellation()
    }

    fileprivate func fire() {
        let due = action
        action = nil
        due?()
    }
}

/// The timers of one loop: a binary heap, the earliest on top.
final class TimerHeap {
    private var timers: [Timer] = []
    private var cancelledCount = 0
    private var nextOrder: UInt64 = 0

    func add(at deadline: ContinuousClock.Instant, _ action: @escaping () -> Void) -> Timer {
        let timer = Timer(deadline: deadline, order: nextOrder, heap: self, action: action)
        nextOrder += 1
        timers.append(timer)
        siftUp(from: timers.count - 1)
        return timer
    }

    /// Returns the earliest deadline; nil if no timer waits.
    func nextDeadline() -> ContinuousClock.Instant? {
        while let top = timers.first, !top.isPending {
            removeTop()
            cancelledCount -= 1
        }
        return timers.first?.deadline
    }

    /// Runs the actions that are due at `now`, in order of deadline. Timers that these actions schedule wait for the
    /// next turn.
    func fireDue(at now: ContinuousClock.Instant) {
        let firstOfNextTurn = nextOrder
        while let deadline = nextDeadline(), deadline <= now, timers[0].order < firstOfNextTurn {
            removeTop().fire()
        }
    }

    func removeAll() {
        timers.removeAll()
        cancelledCount = 0
    }

    fileprivate func noteCancellation() {
        cancelledCount += 1
        guard cancelledCount > 64, cancelledCount > timers.count / 2 else { return }
        timers.removeAll { !$0.isPending }
        cancelledCount = 0
        for index in stride(from: timers.count / 2 - 1, through: 0, by: -1) { siftDown(from: index) }
    }

    @discardableResult
    private func removeTop() -> Timer {
        timers.swapAt(0, timers.count - 1)
        let top = timers.removeLast()
        siftDown(from: 0)
        return top
    }

    private func isEarlier(_ left: Int, _ right: Int) -> Bool {
        let (a, b) = (timers[left], timers[right])
        return a.deadline == b.deadline ? a.order < b.order : a.deadline < b.deadline
    }

    private func siftUp(from start: Int) {
        var child = start
        while child > 0 {
            let parent = (child - 1) / 2
            guard isEarlier(child, parent) else { return }
            timers.swapAt(child, parent)
            child = parent
        }
    }

    private func siftDown(from start: Int) {
        var parent = start
        while true {
            var earliest = parent
            for child in [2 * parent + 1, 2 * parent + 2] where child < timers.count && isEarlier(child, earliest) {
                earliest = child
            }
            guard earliest != parent else { return }
            timers.swapAt(parent, earliest)
            parent = earliest
        }
    }
}
