extension PushType {
    /// Whether a frequency cap or quiet hours may hold back a push of this type in this lane: only alerts disturb a
    /// person.
    /// - Parameter evenUrgent: whether they hold back urgent alerts, too.
    func mayBeHeldBack(in lane: Lane, evenUrgent: Bool) -> Bool {
        self == .alert && (evenUrgent || lane.peer != .urgent)
    }
}
