import QueueCore

/// Queues in the order of their turns: by the turn of the tenant, then by the turn of the queue. Adding a queue or
/// moving one back costs the logarithm of their number.
struct TurnOrder<Queue: Contender> {
    /// The queues of a tenant, as a heap by their turns.
    private struct Group {
        let tenant: TenantShare
        var queues: [Queue]
    }

    /// A heap by the turns of the tenants.
    private var groups: [Group] = []

    init() {}

    /// - Parameter queues: in any order.
    init(_ queues: [Queue]) {
        var places: [ObjectIdentifier: Int] = [:]
        for queue in queues {
            let tenant = ObjectIdentifier(queue.tenant)
            if let place = places[tenant] {
                groups[place].queues.append(queue)
            } else {
                places[tenant] = groups.count
                groups.append(Group(tenant: queue.tenant, queues: [queue]))
            }
        }
        for index in groups.indices where groups[index].queues.count > 1 {
            for place in groups[index].queues.indices.reversed() { sinkQueue(at: place, ofGroup: index) }
        }
        for index in groups.indices.reversed() { sinkGroup(at: index) }
    }

    /// The queue whose turn it is; nil if there is none.
    var first: Queue? { groups.first?.queues[0] }

    /// Moves the first queue back: its turn, or its tenant's, comes later than before.
    mutating func moveFirstBack() {
        sinkQueue(at: 0, ofGroup: 0)
        sinkGroup(at: 0)
    }

    /// Removes the first queue. Its tenant's turn may come later than before.
    mutating func removeFirst() {
        if groups[0].queues.count > 1 {
            groups[0].queues.swapAt(0, groups[0].queues.count - 1)
            groups[0].queues.removeLast()
            sinkQueue(at: 0, ofGroup: 0)
        } else {
            groups.swapAt(0, groups.count - 1)
            groups.removeLast()
            if groups.isEmpty { return }
        }
        sinkGroup(at: 0)
    }

    private mutating func sinkQueue(at place: Int, ofGroup group: Int) {
        groups[group].queues.sink(at: place) { $0.turn.precedes($1.turn) }
    }

    private mutating func sinkGroup(at place: Int) {
        groups.sink(at: place) { $0.tenant.turn.precedes($1.tenant.turn) }
    }
}
