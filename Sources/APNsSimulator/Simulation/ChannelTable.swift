import FoundationEssentials
import QueueCore

/// The channels of a simulator's apps. Apple separates them by app and environment; a simulator has one environment.
final class ChannelTable {
    /// The maximum number of channels of an app; Apple's limit is 10,000.
    private let limit: Int
    private var policies: [String: [String: ChannelPolicy]] = [:]

    init(limit: Int) {
        self.limit = limit
    }

    /// The policy of a channel; nil if the channel does not exist.
    subscript(channel: String, ofApp app: String) -> ChannelPolicy? { policies[app]?[channel] }

    /// The channels of an app.
    func all(ofApp app: String) -> [String] { (policies[app] ?? [:]).keys.sorted() }

    /// Creates a channel and returns its ID; nil if the app has reached the limit.
    func create(_ policy: ChannelPolicy, ofApp app: String) -> String? {
        guard policies[app, default: [:]].count < limit else { return nil }
        let id = Data((0..<16).map { _ in UInt8.random(in: .min ... .max) }).base64EncodedString()
        policies[app, default: [:]][id] = policy
        return id
    }

    /// Deletes a channel; returns false if it did not exist.
    func delete(_ channel: String, ofApp app: String) -> Bool {
        policies[app]?.removeValue(forKey: channel) != nil
    }
}
