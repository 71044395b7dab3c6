/// The status in an error packet of the binary interface, and what it means in the terms of today's provider API.
///
/// Source: Apple archive, "Binary Provider API", table A-1. What follows from a reason is `Reason.table`'s to say.
package struct BinaryStatus: Hashable, Sendable {
    /// The status as it stands in the packet.
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
    /// The server goes down for maintenance. The identifier is that of the last notification it took, which is not at
    /// fault.
    package static let shutdown = BinaryStatus(code: 10)
    /// The server could not read the frame.
    package static let protocolError = BinaryStatus(code: 128)
    package static let unknown = BinaryStatus(code: 255)

    /// Whether the push of the packet's identifier was taken, and only what follows it was not.
    package var isAcceptance: Bool { self == .noError || self == .shutdown }

    /// The text by which `Reason` knows it; for the others a text that says what it is.
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

    /// The reason that it gives. An unknown status is final, like an unknown reason.
    package var reason: Reason { Reason(status: 0, text: reasonText) }
}
