import QueueCore

/// The header fields that messages of one kind share, and by which their prepared form is found again.
struct PushKind: Hashable {
    /// Nil for broadcasts: their path names the app.
    let topic: String?
    let pushType: PushType
    let priority: Priority?
}
