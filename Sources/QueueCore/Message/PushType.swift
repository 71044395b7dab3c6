/// The kind of a push, sent as `apns-push-type` (Apple: "Sending notification requests to APNs").
package enum PushType: String, CaseIterable, Sendable {
    case alert
    case background
    case voip
    case complication
    case fileprovider
    case mdm
    case liveactivity
    case location
    case pushtotalk
    case widgets
    case controls

    /// The suffix after the bundle ID in `apns-topic`.
    package var topicSuffix: String {
        switch self {
        case .alert, .background, .mdm: ""
        case .voip: ".voip"
        case .complication: ".complication"
        case .fileprovider: ".pushkit.fileprovider"
        case .liveactivity: ".push-type.liveactivity"
        case .location: ".location-query"
        case .pushtotalk: ".voip-ptt"
        case .widgets: ".push-type.widgets"
        case .controls: ".push-type.controls"
        }
    }

    /// The maximum length of a payload in bytes, as sent.
    package var maximumPayloadBytes: Int { self == .voip ? 5120 : 4096 }

    /// The priority that is sent if the message names none; nil: no header.
    package var defaultPriority: Priority? { self == .background ? .powerAware : nil }
}
