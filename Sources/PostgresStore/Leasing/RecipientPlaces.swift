/// Where each recipient's row is among the rows that a claim returned, by ordinal.
///
/// A claim reads the devices of a dense job with one range scan, which also returns neighbours that are not in the job.
/// So a row belongs to a recipient only if it came with the recipient's own device id. Counts and positions prove
/// nothing: if a job has lost one recipient and its range contains one other device, the claim returns as many rows as
/// the job has recipients.
struct RecipientPlaces: Sendable {
    /// `missing` for a recipient without a row.
    private let places: [Int32]

    private static let missing: Int32 = -1

    /// - Parameters:
    ///   - recipients: the device ids of the job, ascending.
    ///   - ids: the device ids of the rows, ascending.
    init(of recipients: [Int64], among ids: [Int64]) {
        var place = 0
        places = recipients.map { recipient in
            while place < ids.count, ids[place] < recipient { place += 1 }
            return place < ids.count && ids[place] == recipient ? Int32(place) : Self.missing
        }
    }

    /// The place of a recipient's row; nil if the claim returned none for it.
    subscript(ordinal: Int) -> Int? {
        let place = places[ordinal]
        return place == Self.missing ? nil : Int(place)
    }
}
