import Cryptography
import QueueCore
import TestSupport
import Testing
import Transport

@testable import APNs

@Suite(.timeLimit(.minutes(10))) struct `A client certificate` {
    @Test func `that the server refuses is told as such`() async throws {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let refused = try await loop.run { _ in
            let authority = try MockAPNs.authority.get()
            let server = try MockAPNs(
                on: loop, clientCertificates: .required(issuedBy: authority.certificate), respond: { $0.answer() })
            let stranger = try CertificateAuthority.make(commonName: "Stranger").issueClient(.init(userID: "x"))
            let gateway = try HTTP2Gateway(
                endpoint: try server.endpoint, credential: .certificate(stranger), settings: .brisk, loop: loop)
            let sender = Sender(gateway)
            defer {
                gateway.close()
                server.close()
            }
            gateway.requestCapacity()
            await sender.until { !sender.refusedCredentials.isEmpty }
            return sender.refusedCredentials[0]
        }
        #expect(refused.reason == .named("BadCertificate"))
        #expect(refused.detail.contains("unknown ca"))
    }

    @Test func `that the server refuses is not connected with while nothing may be sent, and at once when it may`()
        async throws
    {
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let (states, connections, downtimes) = try await loop.run { actor in
            let authority = try MockAPNs.authority.get()
            let server = try MockAPNs(
                on: loop, clientCertificates: .required(issuedBy: authority.certificate), respond: { $0.answer() })
            let stranger = try CertificateAuthority.make(commonName: "Stranger").issueClient(.init(userID: "x"))
            var settings = GatewaySettings.brisk
            settings.stableTime = .seconds(10)
            let gateway = try HTTP2Gateway(
                endpoint: try server.endpoint, credential: .certificate(stranger), settings: settings, loop: loop)
            let sender = Sender(gateway)
            sender.restsWhenRefused = true
            defer {
                gateway.close()
                server.close()
            }
            gateway.requestCapacity()
            await sender.until { !sender.refusedCredentials.isEmpty }
            // Twenty times the longest delay between attempts.
            await actor.loop.pause(.seconds(1))
            let resting = (gateway.state, sender.refusedCredentials.count)
            let begun = loop.now
            gateway.requestCapacity()
            await sender.until { sender.refusedCredentials.count > resting.1 }
            // The gateway tries at once; the handshakes may take longer on a busy machine.
            #expect(begun.duration(to: loop.now) < .seconds(20))
            return (resting.0, resting.1, sender.downtimes.count)
        }
        #expect(states == .idle)
        #expect(connections == 1)
        #expect(downtimes == 0)
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A TLS session` {
    /// The alert of a server that fails instead of shaking hands: TLS 1.2, two bytes, fatal, `internal_error`.
    @Test func `that the server ends for reasons of its own says nothing of the certificate`() async throws {
        let failing = try CannedServer(saying: [0x15, 3, 3, 0, 2, 2, 80])
        defer { failing.close() }
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let (error, refusals) = try await loop.run { _ in
            let identity = try MockAPNs.authority.get().issueClient(.init(userID: "com.example.App"))
            let gateway = try HTTP2Gateway(
                endpoint: Endpoint(host: "127.0.0.1", port: failing.port), credential: .certificate(identity),
                settings: .brisk, loop: loop)
            let sender = Sender(gateway)
            defer { gateway.close() }
            gateway.requestCapacity()
            await sender.until { !sender.downtimes.isEmpty }
            return (sender.downtimes[0].error, sender.refusedCredentials.count)
        }
        #expect(error.contains("internal error"))
        #expect(!error.contains("certificate"))
        #expect(refusals == 0)
    }

    /// A server also sends `handshake_failure` if there is no common cipher.
    @Test func `that the server fails to shake hands for blames the certificate after three connections in a row`()
        async throws
    {
        let failing = try CannedServer(saying: [0x15, 3, 3, 0, 2, 2, 40])
        defer { failing.close() }
        let loop = EventLoop(name: "test")
        defer { loop.shutDown() }
        let downtimes = try await loop.run { _ in
            let identity = try MockAPNs.authority.get().issueClient(.init(userID: "com.example.App"))
            let gateway = try HTTP2Gateway(
                endpoint: Endpoint(host: "127.0.0.1", port: failing.port), credential: .certificate(identity),
                settings: .brisk, loop: loop)
            let sender = Sender(gateway)
            sender.restsWhenRefused = true
            defer { gateway.close() }
            gateway.requestCapacity()
            await sender.until { !sender.refusedCredentials.isEmpty }
            return sender.downtimes.count
        }
        #expect(downtimes == 2)
    }
}
