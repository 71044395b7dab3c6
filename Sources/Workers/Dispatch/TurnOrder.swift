import QueueCore

/// Queues in the order of their turns: the tenant whose turn comes first, and of it the queue whose turn comes first.
/// To add one and to move one back costs the logarithm of how many there are.
struct TurnOrder<Queue: Contender> {
    /// Those of a tenant, as a heap by their turns.
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

    /// The first one's turn, or its tenant's, comes later than before.
    mutating func moveFirstBack() {
        sinkQueue(at: 0, ofGroup: 0)
        sinkGroup(at: 0)
    }

    /// Removes the first one, whose tenant's turn may come later than before.
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

    private mutating func sinkQueue(at start: Int, ofGroup group: Int) {
        var place = start
        while let child = Self.firstChild(
            of: place, count: groups[group].queues.count,
            { one, other in
                groups[group].queues[one].turn.precedes(groups[group].queues[other].turn)
            }), groups[group].queues[child].turn.precedes(groups[group].queues[place].turn)
        {
            groups[group].queues.swapAt(place, child)
            place = child
        }
    }

    private mutating func sinkGroup(at start: Int) {
        var place = start
        while let child = Self.firstChild(
            of: place, count: groups.count,
            { one, other in
                groups[one].tenant.turn.precedes(groups[other].tenant.turn)
            }), groups[child].tenant.turn.precedes(groups[place].tenant.turn)
        {
            groups.swapAt(place, child)
            place = child
        }
    }

    /// The one of the two below a place of a heap that comes first.
    private static func firstChild(of place: Int, count: Int, _ precedes: (Int, Int) -> Bool) -> Int? {
        let (left, right) = (2 * place + 1, 2 * place + 2)
        if right < count, precedes(right, left) { return right }
        return left < count ? left : nil
    }
}
