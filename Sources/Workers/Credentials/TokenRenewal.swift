import APNs

/// Keeps the provider token of a signer fresh for the gateway that uses it.
///
/// Belongs to the engine's event loop.
final class TokenRenewal {
    private let token: SharedToken
    private let gateway: HTTP2Gateway
    var upkeep: TokenUpkeep

    init(of token: SharedToken, for gateway: HTTP2Gateway, responseTime: Duration) {
        self.token = token
        self.gateway = gateway
        upkeep = TokenUpkeep(responseTime: responseTime)
    }

    /// Makes the next requests carry the current token.
    func renew() async {
        let step = upkeep.next(isDue: token.nextPoll <= .now)
        do {
            if step.keeps { try await token.keep() }
            guard step.asks else { return }
            let before = token.last
            let current = try await token.current(isRefused: step.isRefused)
            gateway.use(current)
            if current.text != before?.text { upkeep.noteReplaced(now: .now) }
        } catch {
            upkeep.noteFailed(step)
        }
    }
}
