extension PushType {
    /// Whether a frequency cap or quiet hours may hold back a push of this type in this lane: only alerts disturb
    /// somebody.
    /// - Parameter evenUrgent: whether they hold back urgent ones, too.
    func mayBeHeldBack(in lane: Lane, evenUrgent: Bool) -> Bool {
        self == .alert && (evenUrgent || lane.peer != .urgent)
    }
}
