package import APNs
package import QueueCore
import Transport

/// A small substitute for an engine. It keeps a gateway full until all pushes are sent, optionally resends untouched
/// pushes, and remembers the result of each. Its waits end with events, not by polling.
package final class Sender: PushGatewayHandler {
    package let gateway: any PushGateway
    /// The results by ticket: `accepted`, a status and reason, `unanswered` or `untouched`.
    package private(set) var results: [UInt64: String] = [:]
    /// The number of answers that came with each call.
    package private(set) var batchSizes: [Int] = []
    /// The reasons for which the server refused the credential.
    package private(set) var refusedCredentials: [(reason: Reason, detail: String)] = []
    /// The connections with pushes in flight that the gateway gave up.
    package private(set) var lostConnections: [(reason: String, uncertain: Int)] = []
    /// How often the gateway said that nothing is answered any more.
    package private(set) var silences = 0
    /// What the gateway said about servers that do not end the streams of accepted pushes.
    package private(set) var openStreams: [String] = []
    /// An unanswered push is sent again until it was lost this many times.
    package var maximumLosses = 1
    private var losses: [UInt64: Int] = [:]
    /// The pushes whose streams were refused.
    private var refused: Set<UInt64> = []
    /// The number of pushes of which the gateway reported that APNs discarded them after all.
    package private(set) var deliveredTooSoon = 0
    /// Each downtime that the gateway reported.
    package private(set) var downtimes: [Downtime] = []
    /// The number of untouched pushes that were sent again.
    package private(set) var repeatedCount = 0
    /// The gateway's state when the last answers came.
    package private(set) var stateWhenAnswered = GatewayState.idle
    /// Whether to send nothing more once the credential was refused.
    package var restsWhenRefused = false
    /// Whether untouched pushes are sent again.
    package var resendsUntouched = true
    private var waiting: [UInt64] = []
    private var push: PreparedPush?
    private var wakeUp: (isDue: () -> Bool, continuation: CheckedContinuation<Void, Never>)?

    /// Makes this sender the gateway's handler.
    package init(_ gateway: any PushGateway) {
        self.gateway = gateway
        gateway.handler = self
    }

    /// An alert with this payload, or with a payload of `bytes` spaces.
    package static func push(payload: String = #"{"aps":{"alert":"hello"}}"#, bytes: Int? = nil) -> PreparedPush {
        let payload = bytes.map { [UInt8](repeating: UInt8(ascii: " "), count: $0) } ?? Array(payload.utf8)
        return PreparedPush(
            topic: "com.example.App", pushType: .alert, priority: .immediate, expiration: .oneAttempt,
            collapseID: .apnsID, payload: payload)
    }

    /// Sends `count` copies of a push, with tickets from `first` on.
    package func send(_ push: PreparedPush = Sender.push(), count: Int, from first: UInt64 = 0) {
        self.push = push
        waiting += (first..<(first + UInt64(count)))
        pump()
    }

    private func pump() {
        guard let push else { return }
        while let ticket = waiting.first {
            // The ticket in big-endian order, padded to 32 bytes.
            let token =
                (0..<8).map { UInt8(truncatingIfNeeded: ticket >> (56 - 8 * UInt64($0))) }
                + [UInt8](repeating: 0xAB, count: 24)
            let id = APNsID(root: 7, key: Int64(ticket))
            let isTaken = gateway.send(
                push, to: token.span, apnsID: id, losses: losses[ticket] ?? 0, wasRefused: refused.contains(ticket),
                ticket: ticket)
            guard isTaken else { return }
            waiting.removeFirst()
        }
    }

    package func answered(_ answers: [Answer], by gateway: any PushGateway) {
        batchSizes.append(answers.count)
        stateWhenAnswered = gateway.state
        for answer in answers {
            if case .streamRefused = answer.result { refused.insert(answer.ticket) }
            let text = Self.text(of: answer.result)
            if text == "unanswered" { losses[answer.ticket, default: 0] += 1 }
            if text == "unanswered", losses[answer.ticket, default: 0] < maximumLosses {
                waiting.append(answer.ticket)
            } else if text == "untouched", resendsUntouched {
                waiting.append(answer.ticket)
                repeatedCount += 1
            } else {
                precondition(results.updateValue(text, forKey: answer.ticket) == nil, "a ticket came back twice")
            }
        }
        pump()
        wake()
    }

    private static func text(of result: Answer.Result) -> String {
        switch result {
        case .accepted: "accepted"
        case .refused(let refusal): "\(refusal.status) \(refusal.reason.text)"
        case .unanswered, .reset: "unanswered"
        case .untouched, .streamRefused: "untouched"
        }
    }

    package func capacityChanged(of gateway: any PushGateway) {
        if case .unreachable(let downtime) = gateway.state { downtimes.append(downtime) }
        pump()
        wake()
    }

    package func deliveredTooSoon(_ count: Int, by gateway: any PushGateway) { deliveredTooSoon += count }

    package func stoppedAnswering(sentAt: ContinuousClock.Instant, by gateway: any PushGateway) { silences += 1 }

    package func connectionLost(_ reason: String, uncertain count: Int, by gateway: any PushGateway) {
        lostConnections.append((reason, count))
    }

    package func streamsLeftOpen(_ detail: String, by gateway: any PushGateway) { openStreams.append(detail) }

    package func credentialRefused(
        _ reason: Reason, detail: String, connectedAt: ContinuousClock.Instant, by gateway: any PushGateway
    ) {
        refusedCredentials.append((reason, detail))
        if restsWhenRefused { gateway.rest() }
        wake()
    }

    /// The number of pushes with each result.
    package var tally: [String: Int] {
        results.values.reduce(into: [:]) { $0[$1, default: 0] += 1 }
    }

    /// Waits until `count` tickets have a result.
    package func untilAnswered(_ count: Int) async {
        await until { self.results.count >= count }
    }

    /// Waits for a condition that an answer, a change of capacity or ``wake()`` makes true.
    package func until(_ isDue: @escaping () -> Bool) async {
        await withCheckedContinuation { continuation in
            if isDue() { continuation.resume() } else { wakeUp = (isDue, continuation) }
        }
    }

    /// Checks whether the awaited condition holds now.
    package func wake() {
        guard let waiting = wakeUp, waiting.isDue() else { return }
        wakeUp = nil
        waiting.continuation.resume()
    }
}

extension GatewaySettings {
    /// Settings with short times, for tests.
    package static var brisk: GatewaySettings {
        var settings = GatewaySettings()
        settings.growthInterval = .milliseconds(5)
        settings.backoff = Backoff(base: .milliseconds(5), cap: .milliseconds(50))
        settings.stableTime = .zero
        return settings
    }
}
