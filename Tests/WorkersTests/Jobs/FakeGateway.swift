import APNs
import QueueCore

/// A gateway that takes as many pushes as it has slots, and answers when the test tells it to.
final class FakeGateway: PushGateway {
    weak var handler: (any PushGatewayHandler)?
    var confirmsBySilence = false
    var weight = 1.0
    var state = GatewayState.open
    /// The maximum number of pushes in flight.
    var slots: Int
    private(set) var inFlight: [UInt64] = []
    private(set) var isResting = false
    /// Called with each push that is sent.
    var whenSending: () -> Void = {}

    init(slots: Int = 1000) { self.slots = slots }

    var freeSlots: Int { max(0, slots - inFlight.count) }
    var inFlightCount: Int { inFlight.count }

    func send(
        _ push: PreparedPush, to recipient: Span<UInt8>, apnsID: APNsID, losses: Int, wasRefused: Bool,
        ticket: UInt64
    ) -> Bool {
        guard freeSlots > 0 else { return false }
        inFlight.append(ticket)
        whenSending()
        return true
    }

    /// Removes one push from those in flight, and returns its ticket.
    func end(_ index: Int) -> UInt64 { inFlight.remove(at: index) }

    func requestCapacity() { isResting = false }
    func rest() { isResting = true }
    func drain() async {}
    func close() {}
}
