import Cryptography
import Transport

/// Accepts connections after their handshake, and begins the session of their interface. Lives on the simulator's loop.
struct Reception {
    let simulation: Simulation

    /// Accepts a connection of the provider API (HTTP/2).
    func acceptPushes(_ stream: TLSConnection) {
        guard let credential = credential(of: stream) else { return }
        let session = PushSession(
            number: simulation.countConnection(), stream: stream, credential: credential, simulation: simulation)
        simulation.add(session)
        session.begin()
    }

    /// Accepts a connection for channel management. The loop keeps it alive while it is open.
    func acceptChannels(_ stream: TLSConnection) {
        guard let credential = credential(of: stream) else { return }
        _ = ChannelSession(stream: stream, credential: credential, simulation: simulation)
    }

    /// Accepts a connection of the binary interface.
    func acceptBinary(_ stream: TLSConnection) {
        guard let topic = topic(of: stream) else { return }
        let session = BinarySession(
            number: simulation.countConnection(), stream: stream, topic: topic, simulation: simulation)
        simulation.add(session)
        session.begin()
    }

    /// Accepts a connection of the feedback service. The loop keeps it alive while it is open.
    func acceptFeedback(_ stream: TLSConnection) {
        guard let topic = topic(of: stream) else { return }
        _ = FeedbackSession(stream: stream, list: simulation.feedback.take(topic: topic))
    }

    /// Counts a successful handshake, even if the connection is refused later.
    func shookHands(with stream: TLSConnection) {
        if stream.isResumed { simulation.tally.resumedHandshakes += 1 } else { simulation.tally.fullHandshakes += 1 }
    }

    /// Counts a failed handshake.
    func refused() { simulation.tally.failedHandshakes += 1 }

    /// Returns the credential of the client; nil if the connection had to be closed.
    private func credential(of stream: TLSConnection) -> ConnectionCredential? {
        simulation.clock.refresh()
        guard let certificate = try? Optional(stream.peerCertificate) else {
            // The certificate was verified in the handshake and cannot be read again. No client can cause that.
            close(stream)
            return nil
        }
        let configuration = simulation.configuration
        return ConnectionCredential(
            certificate: certificate, environment: configuration.environment, bundleIDs: configuration.bundleIDs)
    }

    /// Returns the topic of a connection of the binary interface: the first of its certificate. Returns nil and closes
    /// the connection if the certificate is not for this environment.
    private func topic(of stream: TLSConnection) -> String? {
        simulation.clock.refresh()
        let certificate = try? stream.peerCertificate
        if let certificate, let topic = certificate.topics.first,
            ConnectionCredential.refusal(of: certificate.apns, simulation.configuration.environment) == nil
        {
            return topic
        }
        close(stream)
        return nil
    }

    private func close(_ stream: TLSConnection) {
        refused()
        stream.close()
    }
}
