import Cryptography
import Transport

/// Takes connections whose handshake is over, and begins the session of their interface. Lives on the simulator's loop.
struct Reception {
    let simulation: Simulation

    /// A connection of the provider API (HTTP/2).
    func acceptPushes(_ stream: TLSConnection) {
        guard let credential = credential(of: stream) else { return }
        let session = PushSession(
            number: simulation.countConnection(), stream: stream, credential: credential, simulation: simulation)
        simulation.add(session)
        session.begin()
    }

    /// A connection for channel management. The loop keeps it as long as it is open.
    func acceptChannels(_ stream: TLSConnection) {
        guard let credential = credential(of: stream) else { return }
        _ = ChannelSession(stream: stream, credential: credential, simulation: simulation)
    }

    /// A connection of the binary interface.
    func acceptBinary(_ stream: TLSConnection) {
        guard let topic = topic(of: stream) else { return }
        let session = BinarySession(
            number: simulation.countConnection(), stream: stream, topic: topic, simulation: simulation)
        simulation.add(session)
        session.begin()
    }

    /// A connection of the feedback service. The loop keeps it as long as it is open.
    func acceptFeedback(_ stream: TLSConnection) {
        guard let topic = topic(of: stream) else { return }
        _ = FeedbackSession(stream: stream, list: simulation.feedback.take(topic: topic))
    }

    /// The handshake of a connection went well, whatever becomes of it.
    func shookHands(with stream: TLSConnection) {
        if stream.isResumed { simulation.tally.resumedHandshakes += 1 } else { simulation.tally.fullHandshakes += 1 }
    }

    /// The handshake of a connection failed.
    func refused() { simulation.tally.failedHandshakes += 1 }

    /// Who is at the other end. Nil if the connection had to be closed.
    private func credential(of stream: TLSConnection) -> ConnectionCredential? {
        simulation.clock.refresh()
        guard let certificate = try? Optional(stream.peerCertificate) else {
            // It was verified in the handshake and cannot be read again: no client can cause that.
            close(stream)
            return nil
        }
        let configuration = simulation.configuration
        return ConnectionCredential(
            certificate: certificate, environment: configuration.environment, bundleIDs: configuration.bundleIDs)
    }

    /// The topic of a connection of the binary interface: its certificate's first. Nil if the connection was closed,
    /// because the certificate is not for this environment.
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
