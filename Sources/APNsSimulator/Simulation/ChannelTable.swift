import FoundationEssentials
import QueueCore

/// The channels of a simulator's apps. Apple separates them by app and environment; a simulator has one environment.
final class ChannelTable {
    /// How many an app may have; Apple's limit is 10,000.
    private let limit: Int
    private var policies: [String: [String: ChannelPolicy]] = [:]

    init(limit: Int) {
        self.limit = limit
    }

    /// The policy of a channel; nil for one that is not there.
    subscript(channel: String, ofApp app: String) -> ChannelPolicy? { policies[app]?[channel] }

    /// The channels of an app.
    func all(ofApp app: String) -> [String] { (policies[app] ?? [:]).keys.sorted() }

    /// Makes a channel and returns its ID; nil when the app has as many as it may.
    func create(_ policy: ChannelPolicy, ofApp app: String) -> String? {
        guard policies[app, default: [:]].count < limit else { return nil }
        let id = Data((0..<16).map { _ in UInt8.random(in: .min ... .max) }).base64EncodedString()
        policies[app, default: [:]][id] = policy
        return id
    }

    /// Deletes a channel; false if it was not there.
    func delete(_ channel: String, ofApp app: String) -> Bool {
        policies[app]?.removeValue(forKey: channel) != nil
    }
}
