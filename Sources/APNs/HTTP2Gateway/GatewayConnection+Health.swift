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
        let hadNoSlots = freeSlots == 0
        giveUpLateStreams()
        guard phase != .closed else { return }
        if let silence = failureOfServer() { return lose("\(stream.peer) \(silence)") }
        leaveWhenShutOut()
        askForLife()
        closeWhenIdle()
        // A stream whose answer was told by its status leaves its slot without another.
        if hadNoSlots, freeSlots > 0 { gateway.capacityChanged() }
    }

    /// Gives up requests whose answers are late. The stream is reset, so that its slot is free again.
    private func giveUpLateStreams() {
        guard http.openStreamCount > 0 else { return }
        let (now, limit) = (loop.nowNanoseconds, UInt64(settings.responseTime / .nanoseconds(1)))
        var late: [StreamReference] = []
        http.forEachOpenStream { stream, _ in
            if now &- stream.openedAt >= limit { late.append(stream) }
        }
        guard !late.isEmpty else { return }
        for stream in late { giveUp(stream) }
        // One that is late while others are answered says nothing about the connection.
        timeoutsInARow += late.count { $0.openedAt > lastAnswer }
        deliverAnswers()
        scheduleFlush()
        if timeoutsInARow >= settings.maximumTimeoutsInARow {
            retire(.failed("\(stream.peer) left \(timeoutsInARow) requests in a row without an answer"))
        }
        closeIfDrained()
    }

    /// A request that is whole goes out, even if it still waits for the socket: the server may act on it before it reads RST_STREAM.
    private func giveUp(_ stream: StreamReference) {
        let isWhole = http.isWritten(stream.id)
        http.reset(stream.id, .cancel)
        settle(stream, as: isWhole ? .unanswered : .untouched)
    }

    /// A server may allow no streams, for a while (RFC 9113 §5.1.2). One that goes on with it while somebody wants to send is as good as
    /// unreachable.
    private func leaveWhenShutOut() {
        if http.openStreamCount > 0 || http.availableStreamCount > 0 { lastRoom = loop.now }
        guard phase == .open, lastRoom.duration(to: loop.now) >= settings.responseTime else { return }
        // It was opened for somebody.
        let isNew = lastRequest == openedAt
        guard isNew || gateway.pool.lastAsked.map({ $0 > lastRoom }) == true else { return }
        retire(.failed("\(stream.peer) allows no requests (MAX_CONCURRENT_STREAMS 0)"))
        closeIfDrained()
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
