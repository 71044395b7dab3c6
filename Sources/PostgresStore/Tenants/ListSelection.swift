/// The part of a long list that is wanted.
package struct ListSelection: Sendable {
    /// Only rows with this text in their names, regardless of case; nil: all.
    package var matching: String?
    /// The maximum number of rows; nil: all.
    package var limit: Int?

    /// Selects the whole list.
    package init(matching: String? = nil, limit: Int? = nil) {
        self.matching = matching
        self.limit = limit
    }

    /// The parameters `$matching` and `$limit`.
    var parameters: Parameters { ["matching": .text(matching), "limit": .int8(limit.map(Int64.init))] }
}
