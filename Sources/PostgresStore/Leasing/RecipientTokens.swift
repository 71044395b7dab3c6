/// The tokens of a job's recipients, by ordinal; a recipient that may not be sent to has none.
package struct RecipientTokens: Sendable {
    private let found: ByteArrays
    private let places: RecipientPlaces

    /// Finds the token of each recipient.
    ///
    /// - Parameters:
    ///   - recipients: the device ids of the job, ascending.
    ///   - ids: the device ids that the claim returned, ascending: a superset of the recipients that may be sent to.
    ///   - tokens: the token of each of `ids`.
    package init(of recipients: [Int64], among ids: [Int64], _ tokens: ByteArrays) {
        precondition(ids.count == tokens.count, "a claim brings a token with each device id")
        found = tokens
        places = RecipientPlaces(of: recipients, among: ids)
    }

    /// The bytes of all tokens; ``range(of:)`` finds a recipient's bytes.
    package var bytes: [UInt8] { found.bytes }

    /// The range of a recipient's token in ``bytes``; nil if the recipient may not be sent to.
    package func range(of ordinal: Int) -> Range<Int>? {
        places[ordinal].map { found.range(at: $0) }
    }
}
