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

/// `apns-priority`.
package enum Priority: Int, CaseIterable, Sendable {
    /// At once.
    case immediate = 10
    /// When it suits the device's power; required of background pushes.
    case powerAware = 5
    /// Never wakes the device.
    case passive = 1
}

/// `apns-expiration`: how long APNs stores the push for a device that it cannot reach. There are three states, because
/// 0 is a value.
package enum Expiration: Hashable, Sendable {
    /// No header: APNs stores the push as long as it likes (30 days at most).
    case apnsDefault
    /// `0`: one attempt at delivery; the push is never stored.
    case oneAttempt
    /// Seconds since 1970, UTC.
    case until(Int64)

    /// The header's value; nil: no header.
    package var headerValue: String? {
        switch self {
        case .apnsDefault: nil
        case .oneAttempt: "0"
        case .until(let seconds): String(seconds)
        }
    }
}

/// The priority class of jobs within a queue. Jobs in a lane with a lower number are claimed and sent first.
///
/// Most jobs are in one of the three lanes that a queue's jobs share. A campaign with a rate of its own has a lane of
/// its own, so that jobs that wait for its rate delay no others. The lane's number modulo three is its urgency.
package struct Lane: RawRepresentable, Hashable, Sendable {
    package let rawValue: Int32

    package init?(rawValue: Int32) {
        guard rawValue >= 0 else { return nil }
        self.rawValue = rawValue
    }

    private init(_ number: Int32) { rawValue = number }

    /// One-time codes and calls. A worker sends them before all other pushes, within a bound
    /// (Workers/Dispatch/Turns.swift).
    package static let urgent = Lane(0)
    /// Single transactional pushes.
    package static let normal = Lane(1)
    /// Campaigns that are not urgent.
    package static let bulk = Lane(2)
    /// The lanes that a queue's jobs share, the most urgent first.
    package static let shared = [urgent, normal, bulk]

    /// Whether the lane is shared, and not one campaign's own.
    package var isShared: Bool { rawValue < 3 }
    /// The shared lane with the same urgency.
    package var peer: Lane { Lane(rawValue % 3) }
}

extension Lane: CustomStringConvertible {
    package var description: String {
        let name = ["urgent", "normal", "bulk"][Int(peer.rawValue)]
        return isShared ? name : "\(name), of its campaign"
    }
}
