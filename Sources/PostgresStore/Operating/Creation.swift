/// What came of an order to make something under something else.
package enum Creation: Sendable, Equatable {
    case created
    /// There is one of that name, which was left alone.
    case exists
    /// What it should belong to is not there, or was removed at the same time.
    case parentMissing

    /// Reads the columns `has_parent` and `was_made`.
    init(_ row: Row) {
        self = row.bool("was_made") ? .created : row.bool("has_parent") ? .exists : .parentMissing
    }
}
