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

    /// What follows the bundle ID in `apns-topic`.
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

    /// The longest payload in bytes, as sent.
    package var maximumPayloadBytes: Int { self == .voip ? 5120 : 4096 }

    /// The priority that is sent where the message names none; nil leaves the header out.
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

/// `apns-expiration`: until when APNs keeps the push for a device it cannot reach. Three states, because 0 is a value.
package enum Expiration: Hashable, Sendable {
    /// No header: APNs keeps it as long as it likes (30 days at most).
    case apnsDefault
    /// `0`: one attempt at delivery, never kept.
    case oneAttempt
    /// Seconds since 1970, UTC.
    case until(Int64)

    /// The header's value, nil for none.
    package var headerValue: String? {
        switch self {
        case .apnsDefault: nil
        case .oneAttempt: "0"
        case .until(let seconds): String(seconds)
        }
    }
}

/// Who goes first within a queue. Lower numbers are claimed and sent before higher ones.
///
/// Most jobs are in one of the three lanes that all of a queue share. A campaign with a rate of its own has a lane of
/// its own, so that what waits for its rate is in nobody's way. The rest of its number's division by three says how
/// urgent it is.
package struct Lane: RawRepresentable, Hashable, Sendable {
    package let rawValue: Int32

    package init?(rawValue: Int32) {
        guard rawValue >= 0 else { return nil }
        self.rawValue = rawValue
    }

    private init(_ number: Int32) { rawValue = number }

    /// One-time codes, calls: passes everything else of its worker.
    package static let urgent = Lane(0)
    /// Single transactional pushes.
    package static let normal = Lane(1)
    /// Campaigns that are not urgent.
    package static let bulk = Lane(2)
    /// Those that all of a queue share, the most urgent first.
    package static let shared = [urgent, normal, bulk]

    /// Whether it is no campaign's own.
    package var isShared: Bool { rawValue < 3 }
    /// The shared lane that is as urgent.
    package var peer: Lane { Lane(rawValue % 3) }
}

extension Lane: CustomStringConvertible {
    package var description: String {
        let name = ["urgent", "normal", "bulk"][Int(peer.rawValue)]
        return isShared ? name : "\(name), of its campaign"
    }
}
