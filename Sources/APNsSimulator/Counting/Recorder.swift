import Transport

/// Writes events as NDJSON, one event a line (two lines here):
///
///     {"at":1700000000123456,"event":"arrived","apns_id":"…","topic":"…","token":"0123abcd","digits":64,
///      "token_digest":"…","connection":1}
///     {"at":1700000000123999,"event":"answered","apns_id":"…","status":410,"reason":"Unregistered",
///      "payload_digest":"…","connection":1}
///
/// `at` is in microseconds since 1970. A broadcast has its `channel` instead of a token, and its request ID as
/// `apns_id`. Of a token, only the first eight digits, the length and a digest are written; of a payload, only a
/// digest. A reader who knows the tokens and payloads can recognise them; other readers learn nothing. Other events are
/// `connected`, `disconnected` and `abandoned`.
///
/// Lines are gathered, and written when they reach 64 KB, when ``flush()`` is called (the simulator does that every 200
/// ms), and at the end.
final class Recorder {
    private static let batchByteCount = 64 * 1024

    private let file: OpenFile
    private var lines: [UInt8] = []
    /// Whether a write has failed, for example on a full disk. The record then ends there, and the simulator continues.
    private(set) var hasFailed = false

    init(path: String) throws(SimulatorError) {
        do {
            file = try OpenFile.writing(path)
        } catch {
            throw .file(path: path, problem: "cannot be written; name a file in a folder you may write to")
        }
        lines.reserveCapacity(Self.batchByteCount + 1024)
    }

    func arrived(_ id: RequestID, topic: String, path: TokenPath?, connection: Int, now: Int) {
        begin("arrived", now)
        add(id)
        add(key: "topic", text: topic)
        append(#","token":""#)
        HexDigits.append(path?.start ?? 0, to: &lines)
        append(#"","digits":"#)
        append(path?.digitCount ?? 0)
        add(key: "token_digest", digest: path?.hash ?? 0)
        end(connection)
    }

    func arrived(_ id: RequestID, topic: String, channel: String, connection: Int, now: Int) {
        begin("arrived", now)
        add(id)
        add(key: "topic", text: topic)
        add(key: "channel", text: channel)
        end(connection)
    }

    func answered(
        _ id: RequestID, status: Int, reason: String, payload: PayloadDigest, connection: Int, now: Int
    ) {
        begin("answered", now)
        add(id)
        append(#","status":"#)
        append(status)
        add(key: "reason", text: reason)
        add(key: "payload_digest", digest: payload.value)
        end(connection)
    }

    func abandoned(_ id: RequestID, connection: Int, now: Int) {
        begin("abandoned", now)
        add(id)
        end(connection)
    }

    func connected(_ connection: Int, now: Int) {
        begin("connected", now)
        end(connection)
    }

    func disconnected(_ connection: Int, now: Int) {
        begin("disconnected", now)
        end(connection)
    }

    /// Writes the gathered lines.
    func flush() {
        guard !lines.isEmpty, !hasFailed else { return }
        do {
            try file.write(lines)
        } catch {
            hasFailed = true
        }
        lines.removeAll(keepingCapacity: true)
    }

    // MARK: Lines

    private func begin(_ event: String, _ now: Int) {
        append(#"{"at":"#)
        append(now)
        append(#","event":""#)
        append(event)
        append(#"""#)
    }

    private func end(_ connection: Int) {
        append(#","connection":"#)
        append(connection)
        append("}\n")
        if lines.count >= Self.batchByteCount { flush() }
    }

    private func add(_ id: RequestID) {
        append(#","apns_id":""#)
        id.write(into: &lines)
        append(#"""#)
    }

    private func add(key: String, text: String) {
        append(#",""#)
        append(key)
        append(#"":""#)
        for octet in text.utf8 {
            // Topics come from the client, so they need escaping.
            if octet == UInt8(ascii: "\"") || octet == UInt8(ascii: "\\") { lines.append(UInt8(ascii: "\\")) }
            lines.append(octet < 0x20 ? 0x20 : octet)
        }
        append(#"""#)
    }

    private func add(key: String, digest: UInt64) {
        append(#",""#)
        append(key)
        append(#"":""#)
        HexDigits.append(digest, to: &lines)
        append(#"""#)
    }

    private func append(_ text: String) { lines.append(contentsOf: text.utf8) }

    private func append(_ number: Int) {
        var divisor = 1
        while number / divisor >= 10 { divisor *= 10 }
        while divisor > 0 {
            lines.append(UInt8(ascii: "0") + UInt8(number / divisor % 10))
            divisor /= 10
        }
    }
}
