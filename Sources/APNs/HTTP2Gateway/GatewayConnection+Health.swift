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
        judgeByOldestRequest()
        giveUpLateStreams()
        guard phase != .closed else { return }
        if let silence = failureOfServer() { return lose("\(stream.peer) \(silence)") }
        leaveWhenShutOut()
        askForLife()
        closeWhenIdle()
        // A stream whose answer was told by its status leaves its slot without another.
        if hadNoSlots, freeSlots > 0 { gateway.capacityChanged() }
    }

    /// Sets the connection aside when requests wait for long and nothing at all has been answered meanwhile: a server may acknowledge
    /// every PING and swallow what it is sent. Where others of the gateway are answered at the same time, half the patience does.
    private func judgeByOldestRequest() {
        // This process may have stood still itself; then whatever has arrived is to be heard first.
        let sinceCheck = lastCheck.duration(to: loop.now)
        lastCheck = loop.now
        guard phase == .open, !isSetAside, sinceCheck < settings.checkInterval * 1.5, let oldest = oldestUnanswered
        else {
            return
        }
        let since = max(oldest, lastAnswer)
        let silence = Duration.nanoseconds(loop.nowNanoseconds &- since)
        let patience = settings.responseTime / (gateway.hasAnswer(after: since, otherThan: self) ? 6 : 3)
        guard silence >= patience else { return }
        isSetAside = true
        gateway.needsAnother()
    }

    /// When the oldest request without an answer was sent, by the clock of the streams.
    private var oldestUnanswered: UInt64? {
        guard isBusy else { return nil }
        var oldest: UInt64?
        http.forEachOpenStream { stream, _ in
            if acceptedEarly.isEmpty || !acceptedEarly.contains(stream.id) {
                oldest = min(oldest ?? .max, stream.openedAt)
            }
        }
        return oldest
    }

    /// Gives up requests whose answers are late. Their streams are reset, so that the slots are free again.
    ///
    /// One that is late while later ones are answered says little about the connection. One that has swallowed all of them is left, and
    /// so is one that does it again and again: nothing that it swallowed is sent over it once more.
    private func giveUpLateStreams() {
        guard http.openStreamCount > 0 else { return }
        let (now, limit) = (loop.nowNanoseconds, UInt64(settings.responseTime / .nanoseconds(1)))
        var late: [StreamReference] = []
        http.forEachOpenStream { stream, _ in
            if now &- stream.openedAt >= limit { late.append(stream) }
        }
        guard !late.isEmpty else { return }
        let unanswered = late.filter { !acceptedEarly.contains($0.id) }
        for stream in late { giveUp(stream) }
        unansweredCount += unanswered.count
        let isLast = unanswered.contains { $0.id > highestAnswered }
        if !unanswered.isEmpty, isSetAside || isLast || unansweredCount >= settings.maximumUnanswered {
            let words = "\(stream.peer) left requests without an answer for \(settings.responseTime)"
            if let uncertainCount { gateway.lost(words, uncertain: uncertainCount) }
            drain(.failed(words))
        }
        deliverAnswers()
        scheduleFlush()
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
        drain(.failed("\(stream.peer) allows no requests (MAX_CONCURRENT_STREAMS 0)"))
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
        drain(.unneeded)
        closeIfDrained()
    }
}
