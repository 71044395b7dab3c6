@testable import HTTP2

/// Records the events of a connection.
final class Recorder: HTTP2Handler {
    enum Event: Equatable {
        case head(UInt32, tag: UInt64, [String], isLast: Bool)
        case body(UInt32, tag: UInt64, String, isLast: Bool)
        case ended(UInt32, tag: UInt64, StreamEnding)
        case settings
        case settingsAcknowledged
        case goAway(UInt32, ErrorCode, String)
        case pong(UInt64)
        case failed(HTTP2Error)
    }

    var events: [Event] = []
    /// Called when a request or response is complete. A server answers here.
    var whenComplete: (StreamReference) -> Void = { _ in }

    func received(_ section: borrowing FieldSection, on stream: StreamReference, isLast: Bool) {
        events.append(.head(stream.id, tag: stream.tag, section.lines, isLast: isLast))
        if isLast { whenComplete(stream) }
    }

    func received(_ body: Span<UInt8>, on stream: StreamReference, isLast: Bool) {
        events.append(.body(stream.id, tag: stream.tag, String(decoding: Array(body), as: UTF8.self), isLast: isLast))
        if isLast { whenComplete(stream) }
    }

    func ended(_ stream: StreamReference, by ending: StreamEnding) {
        events.append(.ended(stream.id, tag: stream.tag, ending))
    }

    func peerSettingsChanged() { events.append(.settings) }
    func settingsAcknowledged() { events.append(.settingsAcknowledged) }

    func receivedGoAway(lastStreamID: UInt32, code: ErrorCode, debugData: Span<UInt8>) {
        events.append(.goAway(lastStreamID, code, String(decoding: Array(debugData), as: UTF8.self)))
    }

    func pingAnswered(_ payload: UInt64) { events.append(.pong(payload)) }
    func failed(_ error: HTTP2Error) { events.append(.failed(error)) }

    /// The events since the last call.
    func take() -> [Event] {
        defer { events = [] }
        return events
    }
}

extension FieldSection {
    /// The fields as `name: value`, in order.
    var lines: [String] {
        fields.map { field in
            let name = withName(of: field) { String(decoding: Array($0), as: UTF8.self) }
            let value = withValue(of: field) { String(decoding: Array($0), as: UTF8.self) }
            return name + ": " + value
        }
    }
}
