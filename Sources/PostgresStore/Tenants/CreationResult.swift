/// The result of creating something that belongs to a parent.
package enum CreationResult: Sendable, Equatable {
    case created
    /// One of that name exists, and was left unchanged.
    case exists
    /// The parent does not exist, or was removed at the same time.
    case parentMissing

    /// Reads the columns `has_parent` and `was_made`.
    init(_ row: Row) {
        self = row.bool("was_made") ? .created : row.bool("has_parent") ? .exists : .parentMissing
    }
}
