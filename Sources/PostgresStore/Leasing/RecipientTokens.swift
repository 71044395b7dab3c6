/// The tokens of a job's recipients, by ordinal; a recipient that may not be sent to has none.
///
/// A claim reads the devices of a dense job with one range scan, which also returns neighbours that are not in the job.
/// So a token belongs to a recipient only if it came with the recipient's own device id. Counts and positions prove
/// nothing: if a job has lost one recipient and its range contains one other device, the claim returns as many tokens
/// as the job has recipients.
package struct RecipientTokens: Sendable {
    private let found: ByteArrays
    /// The place of each ordinal's token in `found`; `missing` if there is none.
    private let places: [Int32]

    private static let missing: Int32 = -1

    /// Finds the token of each recipient.
    ///
    /// - Parameters:
    ///   - recipients: the device ids of the job, ascending.
    ///   - ids: the device ids that the claim returned, ascending: a superset of the recipients that may be sent to.
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

    /// The bytes of all tokens; ``range(of:)`` finds a recipient's bytes.
    package var bytes: [UInt8] { found.bytes }

    /// The range of a recipient's token in ``bytes``; nil if the recipient may not be sent to.
    package func range(of ordinal: Int) -> Range<Int>? {
        let place = places[ordinal]
        return place == Self.missing ? nil : found.range(at: Int(place))
    }
}
