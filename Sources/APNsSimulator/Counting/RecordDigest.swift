/// What stands in the record for a token and for a payload: it tells two apart, and shows neither.
package enum RecordDigest {
    /// Of a device token: the hash by which rules choose tokens, too.
    package static func ofToken(_ token: [UInt8]) -> String {
        text(TokenPath(deviceToken: token, prefixes: []).hash)
    }

    /// Of a payload as it came.
    package static func ofPayload(_ payload: [UInt8]) -> String {
        text(PayloadDigest(of: payload).value)
    }

    private static func text(_ digest: UInt64) -> String {
        var text: [UInt8] = []
        HexDigits.append(digest, to: &text)
        return String(decoding: text, as: UTF8.self)
    }
}
