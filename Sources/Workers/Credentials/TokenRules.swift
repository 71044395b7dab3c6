import APNs

/// Decides what to do with the provider token that the fleet shares.
///
/// Apple wants a token refreshed no more than once in 20 minutes and no less than once in 60 ("Establishing a
/// token-based connection"), across all servers of a team.
enum TokenRules {
    enum Decision: Equatable {
        case use
        /// Mint a token. It replaces the present one unless that has been replaced meanwhile.
        case mint(ifOlderThan: Duration)
        /// The present token cannot be used, and another one may be minted only after this time.
        case wait(Duration)
    }

    /// - Parameters:
    ///   - age: the age of the stored token; nil if there is none. Negative if the database's clock was set back since
    ///     the token was minted. APNs may refuse such a token until its date has come, so it is replaced at once.
    ///   - isKept: whether APNs has said that tokens are replaced too often. The present token must then stay as long
    ///     as APNs accepts it.
    ///   - isRefused: whether APNs calls the token expired.
    ///   - isReadable: whether the token was sealed under this worker's master key. Otherwise it counts as refused, and
    ///     is replaced as soon as APNs accepts another one. Evaluated only if it matters.
    static func decide(
        age: Duration?, isKept: Bool, isRefused: Bool, isReadable: () -> Bool
    ) -> Decision {
        let minimum = Duration.seconds(ProviderToken.minimumSeconds)
        let maximum = isRefused ? minimum : Duration.seconds(ProviderToken.refreshSeconds)
        guard let age, age >= .seconds(-ProviderToken.toleratedFutureSeconds) else {
            return .mint(ifOlderThan: maximum)
        }
        let isKept = isKept && age < .seconds(ProviderToken.latestRefreshSeconds)
        guard age < maximum || isKept else { return .mint(ifOlderThan: maximum) }
        if isReadable() { return .use }
        let wait = max(minimum - age, isKept ? minimum : .zero)
        return wait > .zero ? .wait(wait) : .mint(ifOlderThan: minimum)
    }
}
