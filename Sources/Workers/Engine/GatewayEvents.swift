import APNs
import QueueCore
import Transport

/// What follows when a gateway reports something: answers, room for more pushes, lost connections, an outage, or a
/// credential that APNs refuses.
///
/// Belongs to the engine's event loop.
final class GatewayEvents: PushGatewayHandler {
    private let context: EngineContext
    private let gateways: Gateways
    private let queues: Queues
    private let dispatcher: Dispatcher

    init(_ context: EngineContext, gateways: Gateways, queues: Queues, dispatcher: Dispatcher) {
        self.context = context
        self.gateways = gateways
        self.queues = queues
        self.dispatcher = dispatcher
    }

    func answered(_ answers: [Answer], by gateway: any PushGateway) {
        dispatcher.take(answers, from: gateway)
    }

    func capacityChanged(of gateway: any PushGateway) {
        noteReachability(of: gateway)
        dispatcher.capacityChanged(of: gateway)
    }

    func deliveredTooSoon(_ count: Int, by gateway: any PushGateway) {
        context.report(
            .deliveredTooSoon(queue: queues.names(using: gateway), count: count, grace: context.settings.binary.grace))
    }

    func stoppedAnswering(sentAt: ContinuousClock.Instant, by gateway: any PushGateway) {
        if let circuit = gateways.circuit(of: gateway) { dispatcher.noteSilence(of: gateway, circuit, sentAt: sentAt) }
    }

    func connectionLost(_ reason: String, uncertain count: Int, by gateway: any PushGateway) {
        context.report(.pushesUncertain(queue: queues.names(using: gateway), count: count, reason: reason))
    }

    func streamsLeftOpen(_ detail: String, by gateway: any PushGateway) {
        context.report(.streamsLeftOpen(queue: queues.names(using: gateway), reason: detail))
    }

    func credentialRefused(
        _ reason: Reason, detail: String, connectedAt: ContinuousClock.Instant, by gateway: any PushGateway
    ) {
        switch reason.row.action {
        case .renewToken: gateways.noteExpiredToken(of: gateway)
        case .keepToken:
            gateways.noteTooManyTokens(of: gateway)
            if let circuit = gateways.circuit(of: gateway) { dispatcher.rest(gateway, circuit, because: reason.text) }
        case .reconnectOnce:
            // If a connection ends like this, and so does another one that was opened afterwards, and no push was
            // accepted in between, the key is wrong.
            for queue in queues.using(gateway)
            where queue.unrelatedKey.noteRefused(sentAt: connectedAt, now: context.loop.now) == .keyIsWrong {
                queues.noteFault(of: queue, reason.text)
            }
        default: for queue in queues.using(gateway) { queues.noteFault(of: queue, reason.text) }
        }
    }

    /// Reports that APNs is out of reach, each further attempt that failed, and that APNs can be reached again. Gives
    /// back the jobs held for the gateway meanwhile.
    private func noteReachability(of gateway: any PushGateway) {
        switch gateways.noteState(of: gateway) {
        case .lost(let error):
            context.report(.gatewayUnreachable(queue: queues.names(using: gateway), reason: error))
            queues.yieldJobs(using: gateway, isForGood: false)
        case .failedAgain(let error):
            context.report(.gatewayStillUnreachable(queue: queues.names(using: gateway), reason: error))
        case .stillLost: queues.yieldJobs(using: gateway)
        case .back:
            context.report(.gatewayReachable(queue: queues.names(using: gateway)))
            dispatcher.continueSending(over: gateway)
            context.mayHaveWork.raise()
        case .backInOutage:
            if let circuit = gateways.circuit(of: gateway) { dispatcher.noteReached(gateway, circuit) }
        case nil: break
        }
    }
}
