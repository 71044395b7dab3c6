import QueueCore

/// What each recipient of a job gets, of a message that is not the same for all: in which of its versions, with which
/// attributes in it, and with which number for the app's badge.
///
/// Nothing is joined before it is sent. As with ``RecipientTokens``, a profile belongs to a recipient only by its
/// device id: the claim also brings neighbours.
package struct PersonalPayloads: Sendable {
    /// The default, and then the translations.
    private let versions: [PayloadTemplate]
    private let attributeCount: Int
    /// For each ordinal the place of its profile; `missing` if it has none.
    private let places: [Int32]
    /// Of each profile the place of its version in `versions`.
    private let versionOfProfile: [Int16]
    /// Of each profile a value for each attribute, as JSON: empty if it is missing.
    private let values: ByteArrays
    /// For each ordinal the number for its badge, if the message raises that; those that were not taken are 0, and
    /// not sent to.
    private var figures: [Int32] = []

    private static let missing: Int32 = -1

    /// - Parameters:
    ///   - versions: the default, then the translations.
    ///   - attributes: what the versions have placeholders for.
    ///   - recipients: the device ids of the job, ascending.
    ///   - profiles: the device ids of the profiles that the claim brought, ascending.
    ///   - versionOfProfile: in which version each of these gets the message.
    ///   - values: of each of these, the attributes in their order, as JSON; empty for one that is missing.
    ///   - hasPlaceholders, raisesBadge: see ``PayloadTemplate``.
    package init(
        versions: [[UInt8]], attributes: [String], recipients: [Int64], profiles: [Int64], versionOfProfile: [Int16],
        values: ByteArrays, hasPlaceholders: Bool = true, raisesBadge: Bool = false
    ) {
        precondition(
            versionOfProfile.count == profiles.count && values.count == profiles.count * attributes.count,
            "a claim brings a version and all attributes with each profile")
        precondition(
            versionOfProfile.allSatisfy { versions.indices.contains(Int($0)) }, "PostgreSQL chooses among the versions")
        self.versions = versions.map {
            PayloadTemplate($0, attributes: attributes, hasPlaceholders: hasPlaceholders, raisesBadge: raisesBadge)
        }
        self.versionOfProfile = versionOfProfile
        self.values = values
        attributeCount = attributes.count
        var place = 0
        places = recipients.map { recipient in
            while place < profiles.count, profiles[place] < recipient { place += 1 }
            return place < profiles.count && profiles[place] == recipient ? Int32(place) : Self.missing
        }
    }

    /// Notes the numbers for badges, by ordinal.
    mutating func take(figures: [Int32]) { self.figures = figures }

    /// The length of a recipient's payload in bytes, with the longest number for a badge; nil if the recipient lacks an
    /// attribute that has no default.
    package func byteCount(of ordinal: Int) -> Int? {
        template(of: ordinal).byteCount { value(of: ordinal, $0) }
    }

    /// Puts a recipient's payload into `payload`. Only for one that ``byteCount(of:)`` gives a length for.
    package func join(for ordinal: Int, into payload: inout [UInt8]) {
        payload.removeAll(keepingCapacity: true)
        let figure = figures.isEmpty ? 0 : Int(figures[ordinal])
        template(of: ordinal).append(to: &payload, figure: figure, values.bytes) { value(of: ordinal, $0) }
    }

    private func template(of ordinal: Int) -> PayloadTemplate {
        let place = places[ordinal]
        return versions[place == Self.missing ? 0 : Int(versionOfProfile[Int(place)])]
    }

    /// Where an attribute of a recipient lies in the values, without the quotes of a text.
    private func value(of ordinal: Int, _ attribute: Int) -> Range<Int> {
        let place = places[ordinal]
        guard place != Self.missing else { return 0..<0 }
        let range = values.range(at: Int(place) * attributeCount + attribute)
        let isText = range.count >= 2 && values.bytes[range.lowerBound] == UInt8(ascii: "\"")
        return isText ? range.lowerBound + 1..<range.upperBound - 1 : range
    }
}

extension PersonalPayloads {
    /// Reads the columns `payload`, `badge_increment`, `translations`, `placeholders`, `profile_ids`, `versions` and
    /// `texts` of a claim; nil if all recipients get the same.
    init?(_ row: Row, payload: [UInt8], recipients: [Int64]) {
        let raisesBadge = !row.isNull("badge_increment")
        let isTranslated = !row.isNull("translations")
        let hasPlaceholders = isTranslated || !row.isNull("placeholders")
        guard hasPlaceholders || raisesBadge else { return nil }
        let translations = row.texts("translations")
        self.init(
            versions: [payload] + (0..<translations.count).map { translations[$0] },
            attributes: row.isNull("placeholders") ? [] : row.textArray("placeholders"), recipients: recipients,
            profiles: row.optionalInt8Array("profile_ids") ?? [],
            versionOfProfile: row.optionalInt2Array("versions") ?? [], values: row.texts("texts"),
            hasPlaceholders: hasPlaceholders, raisesBadge: raisesBadge)
    }
}
