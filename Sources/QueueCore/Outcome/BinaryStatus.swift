/// The status in an error packet of the binary interface, and its meaning in the terms of today's provider API.
///
/// Source: Apple archive, "Binary Provider API", table A-1. `Reason.table` says what follows from a reason.
package struct BinaryStatus: Hashable, Sendable {
    /// The status as in the packet.
    package let code: UInt8

    /// The status with this code, known or not.
    package init(code: UInt8) { self.code = code }

    /// No error; not seen in practice.
    package static let noError = BinaryStatus(code: 0)
    package static let processingError = BinaryStatus(code: 1)
    package static let missingDeviceToken = BinaryStatus(code: 2)
    package static let missingTopic = BinaryStatus(code: 3)
    package static let missingPayload = BinaryStatus(code: 4)
    package static let invalidTokenSize = BinaryStatus(code: 5)
    package static let invalidTopicSize = BinaryStatus(code: 6)
    package static let invalidPayloadSize = BinaryStatus(code: 7)
    package static let invalidToken = BinaryStatus(code: 8)
    /// The server goes down for maintenance. The packet's identifier is that of the last notification that it accepted,
    /// which is not at fault.
    package static let shutdown = BinaryStatus(code: 10)
    /// The server could not read the frame.
    package static let protocolError = BinaryStatus(code: 128)
    package static let unknown = BinaryStatus(code: 255)

    /// Whether APNs accepted the push with the packet's identifier, and refused only later ones.
    package var isAcceptance: Bool { self == .noError || self == .shutdown }

    /// The text of the status in `Reason`; for other statuses, a text that describes it.
    package var reasonText: String {
        switch self {
        case .processingError, .unknown: "InternalServerError"
        case .missingDeviceToken: "MissingDeviceToken"
        case .missingTopic: "MissingTopic"
        case .missingPayload: "PayloadEmpty"
        case .invalidTokenSize, .invalidToken: "BadDeviceToken"
        case .invalidTopicSize: "BadTopic"
        case .invalidPayloadSize: "PayloadTooLarge"
        case .shutdown: "Shutdown"
        case .protocolError: "binary interface: protocol error"
        default: "binary interface: status \(code)"
        }
    }

    /// The reason for this status. An unknown status is final, like an unknown reason.
    package var reason: Reason { Reason(status: 0, text: reasonText) }
}
