/// What of a long list is wanted.
package struct ListSelection: Sendable {
    /// Only what has this text in its name, in capitals or not; nil: all.
    package var matching: String?
    /// The most rows; nil: all.
    package var limit: Int?

    /// All of it.
    package init(matching: String? = nil, limit: Int? = nil) {
        self.matching = matching
        self.limit = limit
    }

    /// `$matching` and `$limit`.
    var parameters: Parameters { ["matching": .text(matching), "limit": .int8(limit.map(Int64.init))] }
}
