import QueueCore

/// The header fields that messages of one kind share; the key to their prepared form.
struct PushKind: Hashable {
    /// Nil for broadcasts: their path names the app.
    let topic: String?
    let pushType: PushType
    let priority: Priority?
}
