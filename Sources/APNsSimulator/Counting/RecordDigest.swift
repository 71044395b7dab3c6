/// The digests of tokens and payloads in the record. They distinguish tokens or payloads without revealing them.
package enum RecordDigest {
    /// The digest of a device token. It is also the hash by which rules choose tokens.
    package static func ofToken(_ token: [UInt8]) -> String {
        text(TokenPath(deviceToken: token, prefixes: []).hash)
    }

    /// The digest of a payload as it arrived.
    package static func ofPayload(_ payload: [UInt8]) -> String {
        text(PayloadDigest(of: payload).value)
    }

    private static func text(_ digest: UInt64) -> String {
        var text: [UInt8] = []
        HexDigits.append(digest, to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}
