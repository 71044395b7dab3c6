import QueueCore

/// The rules for broadcasts. Source: Apple, "Sending broadcast push notification requests to APNs".
extension RequestHead {
    /// Returns the refusal for the first rule that a broadcast breaks, apart from its payload. The order is the
    /// simulator's own, as for pushes.
    func refusalOfBroadcast(_ credential: inout ConnectionCredential, _ simulation: Simulation) -> DocumentedReason? {
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
        return isRight(expiration, for: policy, now: simulation.clock.now / 1_000_000) ? nil : .badExpirationDate
    }

    private func isRight(_ expiration: Int?, for policy: ChannelPolicy, now: Int) -> Bool {
        guard let expiration else { return false }
        return policy == .none ? expiration == 0 : expiration >= now
    }
}
