import QueueCore

/// The payload of each recipient of a job whose message is not the same for all: its version, the attributes in it, and
/// the number for the app's badge.
///
/// A payload is joined only when it is sent.
package struct PersonalPayloads: Sendable {
    /// What the jobs of the message share.
    package let message: PersonalMessage
    /// Where each recipient's profile is; a recipient may have none.
    private let places: RecipientPlaces
    /// The place of each profile's version among those of the message.
    private let versionOfProfile: [Int16]
    /// A value of each profile for each attribute, as JSON; empty if the attribute is missing.
    private let values: ByteArrays
    /// The badge number of each ordinal, if the message raises badges. Numbers that were not taken are 0; those
    /// recipients are not sent to.
    private var figures: [Int32] = []

    /// - Parameters:
    ///   - recipients: the device ids of the job, ascending.
    ///   - profiles: the device ids of the profiles that the claim returned, ascending.
    ///   - versionOfProfile: the version of each of these profiles.
    ///   - values: the attributes of each profile in their order, as JSON; empty if an attribute is missing.
    init(
        of message: PersonalMessage, recipients: [Int64], profiles: [Int64], versionOfProfile: [Int16],
        values: ByteArrays
    ) {
        precondition(
            versionOfProfile.count == profiles.count && values.count == profiles.count * message.attributeCount,
            "a claim brings a version and all attributes with each profile")
        precondition(
            versionOfProfile.allSatisfy { message.versions.indices.contains(Int($0)) },
            "PostgreSQL chooses among the versions")
        self.message = message
        self.versionOfProfile = versionOfProfile
        self.values = values
        places = RecipientPlaces(of: recipients, among: profiles)
    }

    /// Stores the badge numbers, by ordinal.
    mutating func take(figures: [Int32]) { self.figures = figures }

    /// The length of a recipient's payload in bytes, with the longest possible badge number; nil if the recipient lacks
    /// an attribute that has no default.
    package func byteCount(of ordinal: Int) -> Int? {
        template(of: ordinal).byteCount { value(of: ordinal, $0) }
    }

    /// Writes a recipient's payload into `payload`. Only for a recipient for which ``byteCount(of:)`` returns a length.
    package func join(for ordinal: Int, into payload: inout [UInt8]) {
        payload.removeAll(keepingCapacity: true)
        let figure = figures.isEmpty ? 0 : Int(figures[ordinal])
        template(of: ordinal).append(to: &payload, figure: figure, values.bytes) { value(of: ordinal, $0) }
    }

    private func template(of ordinal: Int) -> PayloadTemplate {
        message.versions[places[ordinal].map { Int(versionOfProfile[$0]) } ?? 0]
    }

    /// The range of a recipient's attribute in the values, without the quotes of a text.
    private func value(of ordinal: Int, _ attribute: Int) -> Range<Int> {
        guard let place = places[ordinal] else { return 0..<0 }
        let range = values.range(at: place * message.attributeCount + attribute)
        let isText = range.count >= 2 && values.bytes[range.lowerBound] == UInt8(ascii: "\"")
        return isText ? range.lowerBound + 1..<range.upperBound - 1 : range
    }
}

extension PersonalPayloads {
    /// Reads the columns `profile_ids`, `versions` and `texts` of a claim.
    init(_ row: Row, of message: PersonalMessage, recipients: [Int64]) {
        self.init(
            of: message, recipients: recipients, profiles: row.optionalInt8Array("profile_ids") ?? [],
            versionOfProfile: row.optionalInt2Array("versions") ?? [], values: row.texts("texts"))
    }
}
