import FoundationEssentials
import HTTP2
import QueueCore
import Transport

/// Reads answers. Called while the connection receives; the batch is delivered afterwards.
extension HTTP2PushConnection: HTTP2Handler {
    func received(_ section: borrowing FieldSection, on stream: StreamReference, isLast: Bool) {
        noteAnswer(on: stream)
        let status = section.status
        if status == 200 {
            noteServed()
            tell(stream, .accepted)
            // The push was accepted, no matter what else comes on the stream.
            if !isLast { settledEarly[stream.id] = loop.nowNanoseconds }
            return
        }
        let retryAfter = section.text(of: APNsFields.retryAfter).flatMap {
            RetryAfter.delay(from: $0, sentAt: section.text(of: APNsFields.date), now: Self.wallClock)
        }
        let partial = PartialRefusal(status: status, retryAfter: retryAfter, isComplete: isLast)
        if isLast { refuse(stream, partial) } else { partials[stream.id] = partial }
    }

    /// Seconds since 1970, for dates in answers.
    private static var wallClock: Int64 { Int64(Date().timeIntervalSince1970) }

    private func noteAnswer(on stream: StreamReference) {
        answerCount += 1
        lastAnswer = loop.nowNanoseconds
        highestAnswered = max(highestAnswered, stream.id)
        isSetAside = false
        refusalsInARow = 0
        (resetsInARow, firstResetsInARow) = (0, 0)
    }

    private func noteServed() {
        lastServed = loop.nowNanoseconds
        servedCount += 1
        troublesInARow = 0
    }

    private func noteTrouble() {
        if troublesInARow == 0 { troubledSince = loop.nowNanoseconds }
        troublesInARow += 1
    }

    /// Notes what a refusal says about the server at the other end: one of Apple's many servers may be in trouble while
    /// others serve.
    private func noteTrouble(_ refusal: Refusal) {
        switch refusal.reason.row.action {
        case .retry where refusal.status >= 500 || refusal.reason == .otherTransient && refusal.status != 429:
            noteTrouble()
        case .reject, .deactivate, .suspect: noteServed()
        // These refusals are not about the server.
        case .retry, .reconnect, .reconnectOnce, .renewToken, .keepToken, .pause, .retireChannel, .throttleChannel:
            break
        }
    }

    private func tell(_ stream: StreamReference, _ result: Answer.Result) {
        switch result {
        case .unanswered, .reset: if !isRepeated(stream) { gateway.noteFirstLoss() }
        case .accepted, .refused, .untouched, .streamRefused: break
        }
        forget(stream)
        answers.append(Answer(ticket: stream.tag, result: result, sentAt: stream.openedAt))
    }

    func received(_ body: Span<UInt8>, on stream: StreamReference, isLast: Bool) {
        if !settledEarly.isEmpty, settledEarly[stream.id] != nil {
            if isLast { settledEarly[stream.id] = nil }
            return
        }
        let isSettled = partials[stream.id]?.append(body) == true
        guard isLast || isSettled, var partial = partials.removeValue(forKey: stream.id) else { return }
        partial.isComplete = true
        if !isLast { settledEarly[stream.id] = loop.nowNanoseconds }
        refuse(stream, partial)
    }

    func ended(_ stream: StreamReference, by ending: StreamEnding) {
        switch ending {
        case .aboveGoAway:
            if stream.id < firstAboveGoAway?.id ?? .max { firstAboveGoAway = stream }
            // It had this to do until now, so its end is not that of an idle connection.
            requestedAt = loop.nowNanoseconds
            settle(stream, as: .untouched)
        case .reset(.refusedStream):
            noteRefusal(of: stream)
            settle(stream, as: .streamRefused)
        case .reset(let code):
            settleReset(stream, "\(self.stream.peer) ended requests without an answer (RST_STREAM, \(code))")
        case .violation(let error): settleMalformed(stream, error)
        }
    }

    /// Settles a request whose stream was reset. It is not known whether the server has acted on it.
    /// - Parameter words: who has reset it, and why.
    private func settleReset(_ stream: StreamReference, _ words: String) {
        if settledEarly[stream.id] == nil, partials[stream.id] == nil { noteReset(of: stream, words) }
        settle(stream, as: .reset)
    }

    /// Sets the connection aside until it answers a request. A server that resets one request may reset all, and a push
    /// may be lost only a few times. This way the connection costs each push at most one loss.
    private func noteReset(of stream: StreamReference, _ words: String) {
        isSetAside = true
        resetsInARow += 1
        if !isRepeated(stream) { firstResetsInARow += 1 }
        unansweredCount += 1
        lastReset = (words, isRepeated(stream))
    }

    /// Settles a request whose answer breaks a rule of HTTP/2. If its status could be read, the outcome of the push is
    /// known.
    private func settleMalformed(_ stream: StreamReference, _ error: HTTP2Error) {
        // A 200 was reported when its head came, and `settle` reports a refusal with the part of its body that has
        // come.
        guard stream.status >= 200, settledEarly[stream.id] == nil, partials[stream.id] == nil else {
            let words = "\(self.stream.peer) answered requests against the rules of HTTP/2"
            return settleReset(stream, "\(words) (\(error.violation.rawValue))")
        }
        noteAnswer(on: stream)
        if stream.status == 200 {
            noteServed()
            tell(stream, .accepted)
        } else {
            refuse(stream, PartialRefusal(status: stream.status))
        }
    }

    /// Settles a request that gets no further answer.
    func settle(_ stream: StreamReference, as result: Answer.Result) {
        if settledEarly.removeValue(forKey: stream.id) != nil { return }
        // A refusal whose body was cut off is a refusal all the same: the push was not accepted.
        if let partial = partials.removeValue(forKey: stream.id) { return refuse(stream, partial) }
        tell(stream, result)
    }

    /// Ends the connection after several refusals in a row. A refused request is sent again at once, so a server that
    /// only refuses would cause an endless loop.
    private func noteRefusal(of stream: StreamReference) {
        // Requests that were sent before the last refusal arrived count as the same refusal.
        guard stream.openedAt >= lastRefusalOfStream else { return }
        lastRefusalOfStream = loop.nowNanoseconds
        let isRepeated = isRepeated(stream)
        if isRepeated { noteTrouble() }
        // Where others are answered, one push that is refused for its own sake must not end connections.
        guard !isRepeated || !hasAnswered else { return }
        refusalsInARow += 1
        guard refusalsInARow >= settings.toleratedFailures else { return }
        let words = "\(self.stream.peer) refused requests \(refusalsInARow) times in a row (REFUSED_STREAM)"
        noteSpoiling(isRepeated: isRepeated, otherwise: .failed(words))
    }

    func peerSettingsChanged() {
        let wasShutOut = isShutOut
        if http.availableStreamCount > 0 { isShutOut = false }
        if phase == .awaitingSettings {
            phase = .open
            gateway.opened(self)
        } else if wasShutOut, !isShutOut {
            gateway.reached()
        }
    }

    func settingsAcknowledged() {}

    func pingAnswered(_ payload: UInt64) {}

    func receivedGoAway(lastStreamID: UInt32, code: ErrorCode, debugData: Span<UInt8>) {
        // The debug data is usually JSON as in an answer. Plain text, "null" and no data have also been seen.
        let body = RefusalBody(Array(debugData))
        let text = body.text
        let words = text.map { "\(code), \($0)" } ?? "\(code)"
        let ending = "\(stream.peer) ended the connection: \(words)"
        let reason = Reason(status: 0, text: text)
        if [.pause, .renewToken, .keepToken, .reconnectOnce].contains(reason.row.action) {
            news.refusedCredential = (reason, ending)
        }
        // Apple gives a reason where nginx gives none.
        let isInOrder =
            code == .noError && [nil, "Shutdown"].contains(body.reason) && news.refusedCredential == nil
        // nginx sends this after a certain number of requests, before it has answered them. It will answer them. With
        // the highest identifier, a server only announces another GOAWAY, and accepts requests that are on their way
        // (RFC 9113 §6.8).
        let isFirstStep = lastStreamID == FrameHeader.maximumStreamID
        if isInOrder, isFirstStep ? isBusy : lastStreamID > 0 { hasAdmittedRequests = true }
        if isInOrder, hasAnswered || hasAdmittedRequests {
            var answers = answerCount
            // The first step promises no answers, but a server that has answered some continues to.
            if hasAnswered || !isFirstStep {
                http.forEachOpenStream { stream, _ in if stream.id <= lastStreamID { answers += 1 } }
            }
            news.ending = .retired(answers: answers)
        } else {
            news.ending = .asked(ending)
        }
        if !hasAnswered, !isBusy, news.refusedCredential == nil { blameFirstAboveGoAway() }
        firstAboveGoAway = nil
        gateway.noteGoAway(code)
    }

    /// Has the oldest request count as refused if the server goes away without an answer to any: it may be the one that
    /// the server does not bear. As untouched, it would be the first over the next connection, too, and so on, and what
    /// is behind it would never be sent.
    private func blameFirstAboveGoAway() {
        guard let stream = firstAboveGoAway, let index = answers.lastIndex(where: { $0.ticket == stream.tag }),
            case .untouched = answers[index].result
        else { return }
        answers[index] = Answer(ticket: stream.tag, result: .refused(Self.shutdown), sentAt: stream.openedAt)
    }

    /// What APNs answers to a request when it goes away.
    private static let shutdown = Refusal(status: 503, text: "Shutdown")

    func failed(_ error: HTTP2Error) {}

    /// Settles open requests when the connection ends. The server cannot have acted on a request whose end never left
    /// the process.
    func giveUpOpenStreams() {
        http.forEachOpenStream { stream, isSent in
            if settledEarly[stream.id] != nil { return }
            if let partial = partials[stream.id] { return refuse(stream, partial) }
            tell(stream, isSent ? .unanswered : .untouched)
        }
    }

    private func refuse(_ stream: StreamReference, _ partial: PartialRefusal) {
        let (refusal, isRepeated) = (refusal(partial), isRepeated(stream))
        noteTrouble(refusal)
        tell(stream, .refused(refusal))
        guard refusal.reason.row.replacesConnection else { return }
        if refusal.reason.row.action == .renewToken { gateway.noteTokenRefused() }
        let asked = ConnectionEnding.asked("\(self.stream.peer) answered \(refusal.status) \(refusal.reason.text)")
        switch refusal.reason.row.action {
        case .reconnect, .renewToken: noteSpoiling(isRepeated: isRepeated, otherwise: asked)
        // If the connection served other pushes, this push was at fault, not the connection or the server.
        case .reconnectOnce where lastServed > 0: news.ending = .usedUp
        default: news.ending = asked
        }
    }

    /// Notes that an answer to a push ends the connection. Of several at once, one that was never sent before says more
    /// about the server.
    private func noteSpoiling(isRepeated: Bool, otherwise: ConnectionEnding) {
        if isRepeated, news.spoiling != nil { return }
        news.spoiling = (isRepeated, otherwise)
    }

    /// Many refusals of a campaign are identical; they share one object.
    private func refusal(_ partial: PartialRefusal) -> Refusal {
        let isCommon = partial.retryAfter == nil && partial.isComplete
        if isCommon, let last = lastRefusal, last.status == partial.status, last.body == partial.body {
            return last.refusal
        }
        let body = RefusalBody(partial.body)
        let refusal = Refusal(
            status: partial.status, text: body.reason, excerpt: body.text, isComplete: partial.isComplete,
            retryAfter: partial.retryAfter,
            deadSinceMilliseconds: partial.status == 410 ? body.deadSinceMilliseconds : nil)
        if isCommon { lastRefusal = (partial.status, partial.body, refusal) }
        return refusal
    }
}
