import QueueCore

/// A message that is not the same for all recipients, ready to be joined for each of them.
///
/// The jobs of a message that one claim returns share it: it may have 262,144 bytes, and a worker may hold thousands of
/// its jobs.
package final class PersonalMessage: Sendable {
    /// The default payload, then the translations.
    let versions: [PayloadTemplate]
    /// The number of attributes that the versions have placeholders for.
    let attributeCount: Int
    /// The bytes of memory that the translations take; 0 without any.
    package let translationBytes: Int

    /// - Parameters:
    ///   - versions: the default, then the translations.
    ///   - attributes: the attributes that the versions have placeholders for.
    ///   - hasPlaceholders, raisesBadge: see ``PayloadTemplate``.
    init(versions: [[UInt8]], attributes: [String], hasPlaceholders: Bool, raisesBadge: Bool) {
        let versions = versions.map {
            PayloadTemplate($0, attributes: attributes, hasPlaceholders: hasPlaceholders, raisesBadge: raisesBadge)
        }
        self.versions = versions
        attributeCount = attributes.count
        translationBytes = versions.dropFirst().reduce(0) { $0 + $1.size }
    }
}
