import Foundation
import HTTP1
import LocalStack
import TestSupport
import Testing
import Transport

/// Tests the client with a webhook receiver in Python. Over TLS it is tested with workers, which trust the receiver's
/// authority (EndToEndTests/WebhookTests.swift).
@Suite(.timeLimit(.minutes(10))) struct `A client that posts` {
    /// Posts a message. Returns the result and the time it took.
    private func post(
        to url: String, named: [String] = ["127.0.0.0/8"], body: String = #"{"type":"test","data":{"tenant":"acme"}}"#,
        _ adjust: (inout ClientLimits) -> Void = { _ in }
    ) async throws -> (result: Result<Int, ClientError>, time: Duration) {
        let loop = EventLoop(name: "client")
        defer { loop.shutDownAndWait() }
        var limits = ClientLimits()
        adjust(&limits)
        let rules = AddressRules(named: try named.map { try #require(AddressBlock($0)) })
        let address = try WebAddress(parsing: url)
        let begun = ContinuousClock.now
        let result = await loop.run { [limits] _ in
            do throws(ClientError) {
                let message = WebhookMessage(id: "a", body: Array(body.utf8))
                let status = try await Client(rules: rules, limits: limits, loop: loop).post(
                    message.body, to: address, fields: message.fields(at: 1, signedWith: []), userAgent: "pushq/1")
                return Result<Int, ClientError>.success(status)
            } catch {
                return .failure(error)
            }
        }
        return (result, ContinuousClock.now - begun)
    }

    @Test func `gets the status, whatever comes behind it, and follows no redirect`() async throws {
        let receiver = try await WebhookReceiver.start(secrets: [], isSecure: false)
        for (behaviour, status) in [("take", 200), ("refuse", 503), ("redirect", 307), ("interim", 200)] {
            #expect(try await post(to: receiver.url(behaviour)).result == .success(status), "\(behaviour)")
        }
        // An endless body is cut off.
        #expect(try await post(to: receiver.url("endless-body")).result == .success(200))
        try await eventually("it to be cut off", within: .seconds(30)) {
            try receiver.records().contains { $0.path == "cut off /endless-body" }
        }
        #expect(try receiver.records().count { $0.path == "/take" } == 1, "the redirect was not followed")
        // More than the kernel accepts at once.
        let large =
            #"{"type":"test","data":{"tenant":"acme","x":""# + String(repeating: "x", count: 8_000_000) + #""}}"#
        #expect(try await post(to: receiver.url("take"), body: large).result == .success(200))
    }

    @Test func `waits so long for a server that says nothing, too little, too much, or something else`() async throws {
        let receiver = try await WebhookReceiver.start(secrets: [], isSecure: false)
        let peer = "localhost:\(receiver.port)"
        for behaviour in ["silent", "drip"] {
            let ended = try await post(to: receiver.url(behaviour)) { $0.total = .seconds(2) }
            #expect(ended.result == .failure(.silent(peer: peer, after: .seconds(2))), "\(behaviour)")
        }
        #expect(
            try await post(to: receiver.url("endless-line")).result == .failure(.malformed(peer: peer, .tooLong)))
        #expect(try await post(to: receiver.url("garbage")).result == .failure(.malformed(peer: peer, .notHTTP)))
        #expect(try await post(to: receiver.url("vanish")).result == .failure(.lost(peer: peer)))
        await receiver.stop()
        guard case .failure(.unreachable(.unreachable)) = try await post(to: receiver.url("take")).result else {
            Issue.record("nobody listens there")
            return
        }
    }

    @Test func `connects to no address that is not admitted, and without TLS to none that is not named`() async throws {
        let receiver = try await WebhookReceiver.start(secrets: [], isSecure: false)
        for url in [
            receiver.url("take"), "http://127.0.0.1:\(receiver.port)/take", "https://localhost:\(receiver.port)/take",
            "http://2130706433:\(receiver.port)/take", "http://[::ffff:127.0.0.1]:\(receiver.port)/take",
        ] {
            guard case .failure(.unreachable(let error)) = try await post(to: url, named: ["10.0.0.0/8"]).result,
                case .forbidden(_, let address) = error
            else {
                Issue.record("\(url) is not refused")
                continue
            }
            #expect(address == "127.0.0.1" || address == "::1", "\(address)")
        }
        #expect(try receiver.records().isEmpty)
        // An address of the internet, but without TLS.
        guard case .failure(.unreachable(.forbidden)) = try await post(to: "http://192.88.98.1/", named: []).result
        else {
            Issue.record("it is not refused")
            return
        }
    }

    @Test func `does not take a certificate of somebody else`() async throws {
        let receiver = try await WebhookReceiver.start(secrets: [])
        guard case .failure(.unreachable(.tls)) = try await post(to: receiver.url("take")).result else {
            Issue.record("nobody trusts it")
            return
        }
        #expect(try receiver.records().isEmpty)
    }
}
