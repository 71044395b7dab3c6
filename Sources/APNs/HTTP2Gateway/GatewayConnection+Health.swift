import HTTP2
import Transport

/// Whether the server is still there, and whether the connection is still needed.
extension GatewayConnection {
    func startClock() {
        clock = loop.schedule(after: settings.checkInterval) { [self] in
            check()
            if phase != .closed { startClock() }
        }
    }

    private func check() {
        giveUpLateStreams()
        guard phase != .closed else { return }
        if let silence = failureOfServer() { return lose("\(stream.peer) \(silence)") }
        askForLife()
        closeWhenIdle()
    }

    /// Gives up requests whose answers are late. The stream is reset, so that its slot is free again.
    private func giveUpLateStreams() {
        guard isBusy else { return }
        let (now, limit) = (loop.nowNanoseconds, UInt64(settings.responseTime / .nanoseconds(1)))
        var late: [(stream: StreamReference, isSent: Bool)] = []
        http.forEachOpenStream { stream, isSent in
            if now &- stream.openedAt >= limit { late.append((stream, isSent)) }
        }
        guard !late.isEmpty else { return }
        for (stream, isSent) in late { giveUp(stream, isSent: isSent) }
        // One that is late while others are answered says nothing about the connection.
        timeoutsInARow += late.count { $0.stream.openedAt > lastAnswer }
        deliverAnswers()
        scheduleFlush()
        if timeoutsInARow >= settings.maximumTimeoutsInARow {
            retire(.failed("\(stream.peer) left \(timeoutsInARow) requests in a row without an answer"))
        }
        closeIfDrained()
    }

    private func giveUp(_ stream: StreamReference, isSent: Bool) {
        http.reset(stream.id, .cancel)
        ended(stream, by: .reset(isSent ? .cancel : .refusedStream))
    }

    private func failureOfServer() -> String? {
        let age = openedAt.duration(to: loop.now)
        if phase == .awaitingSettings, age >= settings.settingsTime { return "sent no HTTP/2 SETTINGS" }
        if http.hasUnacknowledgedSettings, age >= settings.settingsTime { return "did not acknowledge SETTINGS" }
        if let pingSent, pingSent.duration(to: loop.now) >= settings.pingTime { return "did not answer a PING" }
        return nil
    }

    private func askForLife() {
        let silence = lastReceived.duration(to: loop.now)
        let limit = isBusy ? settings.pingAfterSilence : settings.pingAfterIdle
        guard phase != .awaitingSettings, pingSent == nil, silence >= limit else { return }
        pingSent = loop.now
        http.ping(loop.nowNanoseconds)
        scheduleFlush()
    }

    private func closeWhenIdle() {
        guard phase == .open, !isBusy, lastRequest.duration(to: loop.now) >= settings.closeAfterIdle else { return }
        retire(.unneeded)
        closeIfDrained()
    }
}
