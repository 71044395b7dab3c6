/// The personal messages of the jobs that a claim returned. Each is parsed once, and all its jobs share it.
///
/// Of the jobs of a translated message, one brings its translations. It may be any of them.
struct PersonalMessages {
    private struct Key: Hashable {
        let queueID: Int32
        let messageID: Int64

        init(_ row: Row) {
            queueID = row.int4("queue_id")
            messageID = row.int8("message_id")
        }
    }

    /// The row that brings the translations of a message.
    private var translated: [Key: Row] = [:]
    private var parsed: [Key: PersonalMessage] = [:]

    init(_ rows: Rows) {
        for row in rows where !row.isNull("translations") { translated[Key(row)] = row }
    }

    /// The message of a row; nil if all its recipients get the same payload, which is `payload`. Reads the columns
    /// `badge_increment`, `is_translated`, `placeholders`, `queue_id` and `message_id`, and `translations` in the row
    /// that has them.
    mutating func message(of row: Row, payload: [UInt8]) -> PersonalMessage? {
        let raisesBadge = !row.isNull("badge_increment")
        let isTranslated = row.bool("is_translated")
        let hasPlaceholders = isTranslated || !row.isNull("placeholders")
        guard hasPlaceholders || raisesBadge else { return nil }
        let key = Key(row)
        if let message = parsed[key] { return message }
        let message = PersonalMessage(
            versions: [payload] + (isTranslated ? translations(of: key) : []),
            attributes: row.isNull("placeholders") ? [] : row.textArray("placeholders"),
            hasPlaceholders: hasPlaceholders, raisesBadge: raisesBadge)
        parsed[key] = message
        return message
    }

    private func translations(of key: Key) -> [[UInt8]] {
        guard let translations = translated[key]?.texts("translations") else {
            fatalError("the claim returned a job of message \(key.messageID), but no job with its translations")
        }
        return (0..<translations.count).map { translations[$0] }
    }
}
