/// What came of an order to make something under something else.
package enum Creation: Sendable, Equatable {
    case created
    /// There is one of that name, which was left alone.
    case exists
    /// What it should belong to is not there.
    case parentMissing

    /// Of a row `(is the parent there, was it made)`.
    init(_ row: Row?) {
        let hasParent = row?.bool(0) ?? false
        let wasMade = row?.bool(1) ?? false
        self = wasMade ? .created : hasParent ? .exists : .parentMissing
    }
}
