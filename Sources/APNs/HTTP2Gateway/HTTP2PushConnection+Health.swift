import HTTP2
import Transport

/// Checks whether the server is still there, and whether the connection is still needed.
extension HTTP2PushConnection {
    /// After this many refusals in a row (5xx), while others serve, the server of this connection counts as in trouble.
    /// If all servers refuse a third of their pushes, such a row begins once in 59,000 pushes.
    private static let troublesThatTell = 10

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
        endSettledStreams()
        guard phase != .closed else { return }
        if let silence = failureOfServer() { return lose("\(stream.peer) \(silence)") }
        leaveWhenNotAcknowledged()
        noteShutOut()
        leaveWhenShutOut()
        leaveWhenOthersServe()
        askForLife()
        closeWhenIdle()
        if isolation.forgetAwaited(after: settings.checkInterval * 2, now: loop.nowNanoseconds) {
            gateway.capacityChanged()
        }
        // A stream that was settled early frees its slot without a further answer.
        if hadNoSlots, freeSlots > 0 { gateway.capacityChanged() }
    }

    /// Sets the connection aside if requests have waited for long and nothing was answered meanwhile: a server may
    /// acknowledge every PING and still swallow requests. If other connections of the gateway get answers at the same
    /// time, half of that time is enough.
    private func judgeByOldestRequest() {
        // If this check is late, the process itself may have stood still, and must first read what has arrived.
        let sinceCheck = lastCheck.duration(to: loop.now)
        lastCheck = loop.now
        guard phase == .open, !isSetAside, sinceCheck < settings.checkInterval * 1.5, let oldest = oldestUnanswered
        else {
            return
        }
        let since = max(oldest, lastAnswer)
        let silence = Duration.nanoseconds(loop.nowNanoseconds &- since)
        let alone = settings.silenceTime ?? settings.responseTime / 3
        let patience = gateway.hasAnswer(after: since, otherThan: self) ? alone / 2 : alone
        guard silence >= patience else { return }
        isSetAside = true
        gateway.wasSetAside(self, silentSince: since)
    }

    /// Drains a connection that was set aside and has no more requests. Only an answer would show that it serves again,
    /// and none can come.
    func leaveWhenNothingIsAwaited() {
        guard phase == .open, isSetAside, !isBusy else { return }
        guard resetsInARow > 0 else { return drain(.failed("\(stream.peer) ended requests without an answer")) }
        let reason = lastReset.words
        gateway.lost(reason, uncertain: resetsInARow)
        // A few pushes may be at fault themselves. If there are more, the server is. Those that it did not take before
        // say nothing new while it takes others.
        if firstResetsInARow == 0, gateway.servesOthers {
            drain(.spoilt(served: servedCount, isRepeated: true))
        } else if firstResetsInARow <= settings.toleratedFailures {
            drain(ending(isRepeated: lastReset.isRepeated, otherwise: .failed(reason)))
        } else {
            drain(.failed(reason))
        }
    }

    /// When the oldest request without an answer was sent, by the clock of the streams.
    private var oldestUnanswered: UInt64? {
        guard isBusy else { return nil }
        var oldest: UInt64?
        http.forEachOpenStream { stream, _ in
            if isUnanswered(stream) { oldest = min(oldest ?? .max, stream.openedAt) }
        }
        return oldest
    }

    private func isUnanswered(_ stream: StreamReference) -> Bool {
        settledEarly.isEmpty || settledEarly[stream.id] == nil
    }

    /// Gives up requests whose answers are late. Their streams are reset, so that the slots are free again.
    ///
    /// One late answer says little about a connection that answers later requests. A connection that has answered no
    /// later request is replaced, and so is one with repeated losses: pushes that it lost are not sent over it again.
    private func giveUpLateStreams() {
        guard isBusy else { return }
        let (now, limit) = (loop.nowNanoseconds, UInt64(settings.responseTime / .nanoseconds(1)))
        var late: [StreamReference] = []
        http.forEachOpenStream { stream, _ in
            if now &- stream.openedAt >= limit, isUnanswered(stream) { late.append(stream) }
        }
        guard !late.isEmpty else { return }
        for stream in late { giveUp(stream) }
        unansweredCount += late.count
        let isLast = late.contains { $0.id > highestAnswered }
        if isSetAside || isLast || unansweredCount >= settings.maximumUnanswered {
            let words = "\(stream.peer) left requests without an answer for \(settings.responseTime)"
            if let uncertainCount { gateway.lost(words, uncertain: uncertainCount) }
            drain(isSetAside && gateway.isSilent ? .silent : .failed(words))
        }
        deliverAnswers()
        scheduleFlush()
        closeIfDrained()
    }

    /// Resets streams whose results came a while ago and that the server does not end. Nothing else that may
    /// come on them matters, and each takes the slot of another push.
    private func endSettledStreams() {
        let (now, limit) = (loop.nowNanoseconds, UInt64(settings.endTime / .nanoseconds(1)))
        let overdue = settledEarly.filter { now &- $0.value >= limit }
        guard phase != .closed, !overdue.isEmpty else { return }
        for stream in overdue.keys {
            http.reset(stream, .cancel)
            settledEarly[stream] = nil
        }
        scheduleFlush()
        guard !leavesStreamsOpen else { return }
        leavesStreamsOpen = true
        gateway.streamsLeftOpen(
            "\(stream.peer) answers pushes and does not end their streams; they are reset after \(settings.endTime)")
    }

    /// Resets the stream. A complete request goes out even if it still waits for the socket, and the server may act on
    /// it before it reads RST_STREAM.
    private func giveUp(_ stream: StreamReference) {
        let isWhole = http.isWritten(stream.id)
        http.reset(stream.id, .cancel)
        settle(stream, as: isWhole ? .unanswered : .untouched)
    }

    /// Notes that the server, which allowed requests before, has allowed none for a while, and that there is something
    /// to send. While requests are open, they may be all that it allows at once.
    private func noteShutOut() {
        guard phase == .open, !isShutOut, http.openStreamCount == 0, http.availableStreamCount == 0,
            lastRoom.duration(to: loop.now) >= settings.readyTime, gateway.lastAsked.map({ $0 > lastRoom }) == true
        else { return }
        isShutOut = true
        gateway.becameShutOut()
    }

    /// Drains a connection that has had no room for a request for too long. A server may allow no streams for a while
    /// (RFC 9113 §5.1.2). If it keeps doing so while there is something to send, it counts as unreachable.
    private func leaveWhenShutOut() {
        if http.openStreamCount > 0 || freeSlots > 0 { lastRoom = loop.now }
        guard phase == .open, lastRoom.duration(to: loop.now) >= settings.responseTime else { return }
        // A new connection was opened because there was something to send.
        let isNew = lastRequest == openedAt
        guard isNew || gateway.lastAsked.map({ $0 > lastRoom }) == true else { return }
        let isForbidden = http.availableStreamCount == 0
        let fault = isForbidden ? "allows no requests (MAX_CONCURRENT_STREAMS 0)" : "reads no requests"
        drain(.failed("\(stream.peer) \(fault)"))
        closeIfDrained()
    }

    /// Drains the connection if its server is in trouble while others serve. APNs consists of many servers. A server in
    /// trouble refuses fast, so it would draw most of the pushes and refuse them.
    private func leaveWhenOthersServe() {
        guard phase == .open, troublesInARow >= Self.troublesThatTell,
            gateway.hasServed(after: troubledSince, otherThan: self)
        else { return }
        drain(.failed("\(stream.peer) refused \(troublesInARow) pushes in a row while other connections served"))
        closeIfDrained()
    }

    private func failureOfServer() -> String? {
        let age = openedAt.duration(to: loop.now)
        if phase == .awaitingSettings, age >= settings.settingsTime { return "sent no HTTP/2 SETTINGS" }
        if isUnacknowledged, !hasAnswered { return "did not acknowledge SETTINGS" }
        if let pingSent, pingSent.duration(to: loop.now) >= settings.pingTime { return "did not answer a PING" }
        return nil
    }

    /// Whether the server has had its time to acknowledge SETTINGS (RFC 9113 §6.5.3).
    private var isUnacknowledged: Bool {
        http.hasUnacknowledgedSettings && openedAt.duration(to: loop.now) >= settings.settingsTime
    }

    /// Drains the connection to a server that answers pushes but does not acknowledge SETTINGS. Pushes in flight would
    /// be sent again if the connection ended at once.
    private func leaveWhenNotAcknowledged() {
        guard phase == .open, isUnacknowledged else { return }
        drain(.failed("\(stream.peer) did not acknowledge SETTINGS"))
        closeIfDrained()
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
