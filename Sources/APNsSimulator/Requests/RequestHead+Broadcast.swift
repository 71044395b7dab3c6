import QueueCore

/// The rules for broadcasts. Source: Apple, "Sending broadcast push notification requests to APNs".
extension RequestHead {
    /// The first rule that a broadcast breaks before its payload is looked at. The order is the simulator's own, as for pushes.
    func refusalOfBroadcast(_ credential: inout ConnectionCredential, _ simulation: Simulation) -> Refusal? {
        if firstRefusal == .duplicateHeaders { return .duplicateHeaders }
        if let refusal = credentialRefusal ?? credential.refusal(ofApp: topic, simulation.topics) { return refusal }
        guard let channel else { return .missingChannelID }
        if let firstRefusal { return firstRefusal }
        guard let pushType else { return .missingPushType }
        guard pushType == .liveactivity else { return .invalidPushType }
        guard priority != nil else { return .badPriority }
        guard (try? ChannelID(channel)) != nil else { return .badChannelID }
        guard let policy = simulation.channels[channel, ofApp: topic.map { simulation.topics.names[$0] } ?? ""] else {
            return .channelNotRegistered
        }
        return isRight(expiration, for: policy, now: simulation.now / 1_000_000) ? nil : .badExpirationDate
    }

    private func isRight(_ expiration: Int?, for policy: ChannelPolicy, now: Int) -> Bool {
        guard let expiration else { return false }
        return policy == .none ? expiration == 0 : expiration >= now
    }
}

extension ConnectionCredential {
    /// What is wrong with the bundle ID in the path of a broadcast, or of a request about channels: it has no suffix there.
    mutating func refusal(ofApp app: Int?, _ topics: TopicTable) -> Refusal? {
        guard let app else { return .badPath }
        if PushType.allCases.contains(where: { !$0.topicSuffix.isEmpty && topics.names[app].hasSuffix($0.topicSuffix) })
        {
            return .topicDisallowed
        }
        return check(topic: app, topics, pushType: nil)
    }
}
