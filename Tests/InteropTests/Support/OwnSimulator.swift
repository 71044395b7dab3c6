import APNs
import APNsSimulator
import Foundation
import TestSupport

/// A simulator with a folder of its own, for a foreign client, or behind a foreign proxy.
struct OwnSimulator: Sendable {
    /// Prefixes of tokens, with the simulator's answer to each.
    static let refusals: [(prefix: String, answer: OutcomeRule.Answer)] = [
        ("bad0", .init(.badDeviceToken)), ("dead", .init(.unregistered, timestamp: 1_458_114_061_260)),
        ("5100", .init(.tooManyRequests, retryAfter: "7")), ("b0b0", .init(.serviceUnavailable)),
    ]

    private let folder: TemporaryFolder
    let simulator: Simulator

    /// - Parameter deadShare: the share of tokens that are dead, in addition to those of ``refusals``.
    static func start(
        deadShare: Double = 0, _ change: (inout SimulatorConfiguration) -> Void = { _ in }
    ) async throws -> OwnSimulator {
        let folder = try TemporaryFolder()
        var configuration = SimulatorConfiguration(folder: folder.path("apns"))
        configuration.rules.outcomes =
            refusals.map { OutcomeRule(.refuse($0.answer), tokenPrefix: $0.prefix) }
            + [OutcomeRule(.refuse(.init(.unregistered)), share: deadShare)]
        change(&configuration)
        return OwnSimulator(folder: folder, simulator: try await Simulator.start(configuration))
    }

    /// The provider token of the signing key's holder.
    func providerToken() throws -> ProviderToken {
        try ProviderToken.mint(
            key: simulator.authority.signingKey, keyID: TestAuthority.keyID, teamID: TestAuthority.teamID,
            now: Int64(Date().timeIntervalSince1970))
    }

    /// The provider token as the value of `authorization`.
    func authorization() throws -> String { "bearer \(try providerToken().text)" }

    /// The file with a client certificate and its key.
    func certificate() throws -> String {
        try simulator.authority.clientCertificate(topic: "com.example.App").file
    }

    /// The URL for a push to a token that begins with `token`.
    func url(_ token: String = "00") -> String {
        "https://localhost:\(simulator.port)/3/device/" + token.padding(toLength: 64, withPad: "a", startingAt: 0)
    }

    /// A file in its folder.
    func write(_ text: String, to name: String) throws -> String { try folder.write(text, to: name) }
}
