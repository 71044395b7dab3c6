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
