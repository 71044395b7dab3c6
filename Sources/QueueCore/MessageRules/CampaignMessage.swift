/// The message of a campaign as a producer passes it: a payload, or `{"default": payload, "languages": {"de": payload,
/// …}}`. Payloads may have placeholders.
///
/// `pushq.read_message` (migrations/functions/campaign_message.sql) reads it in the same way, and refuses it in the
/// same words.
package struct CampaignMessage {
    private static let maximumLanguages = 100
    /// The maximum length of the payloads in all languages together, in bytes.
    package static let maximumBytes = 262144
    private static let maximumAttributes = 20
    /// The maximum length of a payload with placeholders, in bytes.
    private static let maximumTemplateBytes = 16384
    /// The maximum number of placeholders in a payload, and of braces that stand for themselves.
    private static let maximumBraces = 100

    /// The payload in one language.
    package struct Version {
        /// A language tag; nil for the default payload.
        package let language: String?
        /// The payload as it was passed.
        package let payload: String
        /// The byte of the message at which the payload begins.
        fileprivate let offset: Int

        /// The beginning of a finding about this version.
        fileprivate var label: String { language.map { "language “\($0)”: " } ?? "" }
    }

    /// The default payload, then the translations.
    package let versions: [Version]

    /// Reads a message. Text that is not JSON counts as one payload, so that the rules report what is wrong with it.
    private init(_ text: String) throws(MessageError) {
        var reader = JSONReader(text)
        guard let node = try? reader.read(), Self.isTranslated(node) else {
            versions = [Version(language: nil, payload: text, offset: 0)]
            return
        }
        versions = try Self.versions(of: node, in: Array(text.utf8))
    }

    private static func isTranslated(_ node: JSONNode) -> Bool {
        let names = node.members?.map(\.name) ?? []
        return names.contains("languages") && !names.contains("aps")
    }

    private static func versions(of node: JSONNode, in text: [UInt8]) throws(MessageError) -> [Version] {
        let members = node.members ?? []
        var seen: Set<String> = []
        for member in members where !seen.insert(member.name).inserted {
            throw MessageError("“\(member.name)” occurs twice in the message", "keep one", at: member.offset)
        }
        for member in members where !["default", "languages"].contains(member.name) {
            let shown = String(String.UnicodeScalarView(member.name.unicodeScalars.prefix(40)))
            throw MessageError(
                "the message has “\(shown)” next to default and languages", "leave it out", at: member.offset)
        }
        guard let standard = members.first(where: { $0.name == "default" }) else {
            throw MessageError("the message has no default", "add the payload for all other languages", at: node.offset)
        }
        let languages = members.first { $0.name == "languages" }!.node
        guard let translations = languages.members else {
            throw MessageError(
                "the languages are not a JSON object", #"write {"de": {"aps": …}}"#, at: languages.offset)
        }
        guard translations.count <= maximumLanguages else {
            throw MessageError(
                "the message has \(translations.count) languages", "use at most \(maximumLanguages)",
                at: languages.offset)
        }
        let tags = translations.map { LanguageTag.canonical($0.name) }
        for (tag, member) in zip(tags, translations) where !LanguageTag.isValid(tag) {
            let shown = String(String.UnicodeScalarView(tag.unicodeScalars.prefix(40)))
            throw MessageError(
                "the language “\(shown)” is not a language tag", "use one such as de or de-AT", at: member.offset)
        }
        var known: Set<String> = []
        for (tag, member) in zip(tags, translations) where !known.insert(tag).inserted {
            throw MessageError("the language “\(tag)” occurs twice in the message", "keep one", at: member.offset)
        }
        func version(_ language: String?, _ node: JSONNode) -> Version {
            Version(
                language: language, payload: String(decoding: text[node.range], as: UTF8.self), offset: node.offset)
        }
        let versions: [Version] =
            [version(nil, standard.node)] + zip(tags, translations).map { version($0, $1.node) }
        let bytes = versions.reduce(0) { $0 + $1.payload.utf8.count }
        guard bytes <= maximumBytes else {
            throw MessageError(
                "the message has \(bytes) bytes in all its languages", "use at most \(maximumBytes)",
                at: languages.offset)
        }
        return versions
    }
}

extension CampaignMessage {
    /// Checks the message of a campaign. Returns findings in the order in which they are found: about the whole
    /// message, about placeholders, and then about the payloads with the defaults in place of the placeholders.
    ///
    /// - Parameter now: seconds since 1970.
    package static func check(_ message: Message, now: Int64) -> [Finding] {
        do throws(MessageError) {
            let versions = try CampaignMessage(message.payload).versions
            let plain = try plainPayloads(of: versions)
            return zip(versions, plain).enumerated().flatMap { place, version in
                var alone = message
                alone.payload = version.1.text
                if place > 0 { (alone.priority, alone.expiration, alone.collapseID) = (nil, 0, nil) }
                return MessageRules.check(alone, now: now).map {
                    $0.about(version.0.label, offset: { version.0.offset + version.1.offset(ofPlain: $0) })
                }
            } + fixedFindings(of: versions, message.pushType) + eventFindings(of: versions, message.pushType)
                + badgeFindings(of: versions, message.pushType)
        } catch {
            return [error.finding]
        }
    }

    /// The versions of an accepted message.
    package static func versions(of payload: String) -> [Version] {
        (try? CampaignMessage(payload).versions) ?? [Version(language: nil, payload: payload, offset: 0)]
    }

    /// Whether recipients of an accepted message get different payloads.
    package static func isPersonal(_ payload: String) -> Bool {
        let versions = versions(of: payload)
        return versions.count > 1
            || versions.contains { (try? PlaceholderReader.read(Array($0.payload.utf8)))?.isEmpty == false }
            || versions.contains { badgeIncrement(in: $0) != nil }
    }

    /// The number that a version adds to badges, as written; nil if it adds none.
    private static func badgeIncrement(in version: Version) -> JSONNode.Value? {
        value(at: "aps.badge.increment", in: version)
    }

    private static func plainPayloads(of versions: [Version]) throws(MessageError) -> [PlainPayload] {
        var attributes: Set<String> = []
        var plain: [PlainPayload] = []
        for version in versions {
            let bytes = Array(version.payload.utf8)
            do throws(PlaceholderError) {
                let placeholders = try PlaceholderReader.read(bytes)
                attributes.formUnion(placeholders.compactMap(\.attribute))
                plain.append(PlainPayload(bytes, placeholders))
            } catch {
                throw MessageError(version.label + error.problem, error.remedy, at: version.offset + error.offset)
            }
            guard bytes.count <= maximumTemplateBytes || plain.last?.hasAttributes == false else {
                throw MessageError(
                    version.label + "the payload has \(bytes.count) bytes with its placeholders",
                    "use at most \(maximumTemplateBytes)", at: version.offset)
            }
            let braces = version.payload.ranges(of: "{{").count
            guard braces <= maximumBraces else {
                throw MessageError(
                    version.label + "the payload has {{ in \(braces) places", "use at most \(maximumBraces)",
                    at: version.offset)
            }
        }
        guard attributes.count <= maximumAttributes else {
            throw MessageError(
                "the message asks for \(attributes.count) attributes", "use at most \(maximumAttributes)", at: 0)
        }
        return plain
    }

    /// The values by which recipients are chosen must be the same for all recipients.
    private static func fixedFindings(of versions: [Version], _ pushType: PushType) -> [Finding] {
        guard pushType == .liveactivity else { return [] }
        return versions.flatMap { version in
            ["event", "attributes-type", "input-push-channel"].compactMap { name in
                guard case .string(let text) = value(at: "aps.\(name)", in: version), text.contains("{{") else {
                    return nil
                }
                return .error(
                    "payload", version.label + "aps.\(name) has a placeholder", "write the same for all recipients",
                    at: version.offset)
            }
        }
    }

    /// All versions must be for tokens of the same kind, and start the same type.
    private static func eventFindings(of versions: [Version], _ pushType: PushType) -> [Finding] {
        guard pushType == .liveactivity else { return [] }
        func starts(_ version: Version) -> Bool { value(at: "aps.event", in: version) == .string("start") }
        func type(_ version: Version) -> JSONNode.Value? {
            starts(version) ? value(at: "aps.attributes-type", in: version) : nil
        }
        return versions.dropFirst().compactMap { version in
            let what: String? =
                starts(version) != starts(versions[0])
                ? "event is for tokens of another kind"
                : type(version) != type(versions[0]) ? "attributes-type is for other tokens" : nil
            return what.map {
                .error("payload", version.label + "its \($0)", "use that of the default", at: version.offset)
            }
        }
    }

    private static func value(at path: String, in version: Version) -> JSONNode.Value? {
        var reader = JSONReader(version.payload)
        return (try? reader.read())?.at(path)?.value
    }

    /// A badge must grow by the same number in every language.
    private static func badgeFindings(of versions: [Version], _ pushType: PushType) -> [Finding] {
        guard pushType == .alert else { return [] }
        return versions.dropFirst().filter { badgeIncrement(in: $0) != badgeIncrement(in: versions[0]) }.map {
            .error(
                "payload", $0.label + "it raises the badge by more or less than the default does",
                "use the same increment", at: $0.offset)
        }
    }

    /// Why a message cannot be read.
    private struct MessageError: Error {
        let finding: Finding

        init(_ problem: String, _ remedy: String, at offset: Int) {
            finding = .error("payload", problem, remedy, at: offset)
        }
    }
}

/// A payload with the defaults in place of its placeholders, and with nothing where a placeholder has no default.
private struct PlainPayload {
    let text: String
    /// Whether the payload contains attributes of a recipient.
    let hasAttributes: Bool
    /// Where pieces of it begin, and where these are in the original payload.
    private var pieces: [(plain: Int, given: Int)] = [(0, 0)]

    init(_ given: [UInt8], _ placeholders: [Placeholder]) {
        var plain: [UInt8] = []
        var place = 0
        for placeholder in placeholders {
            plain += given[place..<placeholder.range.lowerBound]
            if let fallback = placeholder.fallback {
                pieces.append((plain.count, fallback.lowerBound))
                plain += given[fallback]
            }
            place = placeholder.range.upperBound
            pieces.append((plain.count, place))
        }
        plain += given[place...]
        text = String(decoding: plain, as: UTF8.self)
        hasAttributes = placeholders.contains { $0.attribute != nil }
    }

    /// The position of a byte in the original payload.
    func offset(ofPlain offset: Int) -> Int {
        let piece = pieces.last { $0.plain <= offset } ?? (0, 0)
        return piece.given + offset - piece.plain
    }
}

extension Finding {
    /// The same finding about a part of a message.
    fileprivate func about(_ label: String, offset place: (Int) -> Int) -> Finding {
        Finding(severity: severity, path: path, problem: label + problem, remedy: remedy, offset: offset.map(place))
    }
}
