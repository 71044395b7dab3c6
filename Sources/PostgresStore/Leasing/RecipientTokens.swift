/// The tokens of a job's recipients, by ordinal; a recipient that may not be sent to has none.
///
/// A claim reads the devices of a dense job with one range scan, which also brings neighbours that are not the job's.
/// So a token belongs to a recipient only if it came with the recipient's own device id. Counts and places say nothing:
/// a job that lost one recipient and whose range has one stranger brings as many tokens as it has recipients.
package struct RecipientTokens: Sendable {
    private let found: ByteArrays
    /// For each ordinal the place of its token in `found`; `missing` if there is none.
    private let places: [Int32]

    private static let missing: Int32 = -1

    /// Finds the token of each recipient.
    ///
    /// - Parameters:
    ///   - recipients: the device ids of the job, ascending.
    ///   - ids: the device ids that the claim brought, ascending: a superset of the recipients that may be sent to.
    ///   - tokens: the token of each of `ids`.
    package init(of recipients: [Int64], among ids: [Int64], _ tokens: ByteArrays) {
        precondition(ids.count == tokens.count, "a claim brings a token with each device id")
        found = tokens
        var place = 0
        places = recipients.map { recipient in
            while place < ids.count, ids[place] < recipient { place += 1 }
            return place < ids.count && ids[place] == recipient ? Int32(place) : Self.missing
        }
    }

    /// The bytes of all tokens; ``range(of:)`` says which of them are a recipient's.
    package var bytes: [UInt8] { found.bytes }

    /// Where the token of a recipient lies in ``bytes``; nil if it may not be sent to.
    package func range(of ordinal: Int) -> Range<Int>? {
        let place = places[ordinal]
        return place == Self.missing ? nil : found.range(at: Int(place))
    }
}
