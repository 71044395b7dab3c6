import APNsSimulator
import Cryptography
import HTTP2
import QueueCore
import Testing
import Transport

/// Apple, "Establishing a token-based connection to APNs" and "Establishing a certificate-based connection to APNs".
@Suite struct `The credential of a connection` {
    @Test func `without one nothing is accepted`() async throws {
        try await withSimulator { simulator in
            try await PushClient.with(simulator) { client in
                #expect(await client.push()?.reason == "MissingProviderToken")
                #expect(client.connection.availableStreamCount == 1)
            }
        }
    }

    @Test func `one stream is allowed until a valid token was seen`() async throws {
        try await withSimulator(configured { $0.streamLimit = 700 }) { simulator in
            let token = try simulator.token()
            try await PushClient.with(simulator) { client in
                #expect(client.connection.availableStreamCount == 1)
                let refused = await client.push(fields: [("authorization", "bearer nonsense")])
                #expect(refused?.reason == "InvalidProviderToken")
                #expect(client.connection.availableStreamCount == 1)
                #expect(await client.push(fields: [("authorization", token)])?.status == 200)
                #expect(await client.when { client.connection.availableStreamCount == 700 })
            }
        }
    }

    @Test func `a token must be signed, fresh and of a known key`() async throws {
        let other = try PrivateKey.makeP256()
        try await withSimulator { simulator in
            let key = simulator.authority.signingKey
            let cases: [(String, String)] = [
                (try providerToken(key: other), "InvalidProviderToken"),
                (try providerToken(key: key, keyID: "UNKNOWNKEY"), "InvalidProviderToken"),
                (try providerToken(key: key, teamID: "OTHERTEAM1"), "InvalidProviderToken"),
                (try providerToken(key: key, algorithm: "none"), "InvalidProviderToken"),
                (try providerToken(key: key, age: 3700), "ExpiredProviderToken"),
                (try providerToken(key: key, age: -3700), "ExpiredProviderToken"),
                (try String(providerToken(key: key).dropFirst(7)), "InvalidProviderToken"),
                ("bearer a.b.c", "InvalidProviderToken"),
            ]
            try await PushClient.with(simulator) { client in
                for (token, reason) in cases {
                    let answer = await client.push(fields: [("authorization", token)])
                    #expect(answer?.status == 403)
                    #expect(answer?.reason == reason)
                }
                #expect(
                    await client.push(fields: [("authorization", try! providerToken(key: key, age: 60))])?.status == 200
                )
            }
        }
    }

    @Test func `a second token within twenty minutes is one too many`() async throws {
        try await withSimulator { simulator in
            let (first, second) = (try simulator.token(age: 60), try simulator.token(age: 30))
            try await PushClient.with(simulator) { client in
                #expect(await client.push(fields: [("authorization", first)])?.status == 200)
                let refused = await client.push(fields: [("authorization", second)])
                #expect(refused?.status == 429)
                #expect(refused?.reason == "TooManyProviderTokenUpdates")
                // The token in use remains valid, here and on other connections.
                #expect(await client.push(fields: [("authorization", first)])?.status == 200)
            }
            try await PushClient.with(simulator) { client in
                #expect(await client.push(fields: [("authorization", first)])?.status == 200)
            }
            #expect(await simulator.snapshot().providerTokens == 2)
        }
        try await withSimulator(configured { $0.tokenUpdateInterval = .zero }) { simulator in
            let (first, second) = (try simulator.token(age: 60), try simulator.token(age: 30))
            try await PushClient.with(simulator) { client in
                #expect(await client.push(fields: [("authorization", first)])?.status == 200)
                #expect(await client.push(fields: [("authorization", second)])?.status == 200)
            }
        }
    }

    @Test func `a connection does not tell two keys of a team apart: a token of the second is one update too many`()
        async throws
    {
        let other = try PrivateKey.makeP256()
        let signingKey = SigningKey(
            keyID: "OTHERKEY01", teamID: TestAuthority.teamID, publicKey: try other.publicKey())
        try await withSimulator(configured { $0.signingKeys = [signingKey] }) { simulator in
            let first = try simulator.token()
            let second = try providerToken(key: other, keyID: "OTHERKEY01", teamID: TestAuthority.teamID)
            try await PushClient.with(simulator) { client in
                #expect(await client.push(fields: [("authorization", first)])?.status == 200)
                #expect(
                    await client.push(fields: [("authorization", second)])?.reason == "TooManyProviderTokenUpdates")
                #expect(await client.push(fields: [("authorization", first)])?.status == 200)
            }
            try await PushClient.with(simulator) { client in
                #expect(await client.push(fields: [("authorization", second)])?.status == 200)
            }
        }
    }

    @Test func `a connection belongs to the team of its first push`() async throws {
        let other = try PrivateKey.makeP256()
        let signingKey = SigningKey(keyID: "OTHERKEY01", teamID: "OTHERTEAM1", publicKey: try other.publicKey())
        try await withSimulator(configured { $0.signingKeys = [signingKey] }) { simulator in
            let mine = try simulator.token()
            let theirs = try providerToken(key: other, keyID: "OTHERKEY01", teamID: "OTHERTEAM1")
            try await PushClient.with(simulator) { client in
                #expect(await client.push(fields: [("authorization", mine)])?.status == 200)
                #expect(await client.push(fields: [("authorization", theirs)])?.reason == "InvalidProviderToken")
            }
            try await PushClient.with(simulator) { client in
                #expect(await client.push(fields: [("authorization", theirs)])?.status == 200)
            }
        }
    }

    @Test func `a token is good for the team's apps`() async throws {
        try await withSimulator(configured { $0.bundleIDs = ["com.example.App"] }) { simulator in
            let token = try simulator.token()
            try await PushClient.with(simulator) { client in
                let topics = [
                    ("com.example.App", nil), ("com.example.App.voip", nil), ("com.example.Other", "TopicDisallowed"),
                ]
                for (topic, reason) in topics {
                    let answer = await client.push(fields: [("authorization", token), ("apns-topic", topic)])
                    #expect(answer?.reason == reason, "\(topic)")
                }
            }
        }
    }

    @Test func `a certificate needs no token, and a wrong one beside it is ignored`() async throws {
        try await withSimulator { simulator in
            try await PushClient.with(simulator, identity: simulator.identity()) { client in
                #expect(client.connection.availableStreamCount == 1000)
                #expect(await client.push(fields: [("authorization", "bearer x")])?.status == 200)
            }
        }
    }

    @Test func `a certificate is for one environment or both`() async throws {
        try await withSimulator(configured { $0.environment = .sandbox }) { simulator in
            let authority = simulator.authority
            let sandbox = try authority.clientCertificate(topic: "com.example.App", isForProduction: false).identity
            let production = try authority.clientCertificate(topic: "com.example.App", isForSandbox: false).identity
            try await PushClient.with(simulator, identity: sandbox) { client in
                #expect(await client.push()?.status == 200)
            }
            try await PushClient.with(simulator, identity: production) { client in
                #expect(await client.push()?.reason == "BadCertificateEnvironment")
            }
        }
    }

    @Test func `a certificate of another authority is refused`() async throws {
        let folder = SimulatorFolder()
        let stranger = try TestAuthority(folder: folder.path).clientCertificate(topic: "com.example.App").identity
        folder.remove()
        let snapshot = try await withSimulator { simulator in
            // With TLS 1.3, the refusal reaches the client after the client's own handshake is complete.
            let outcome = try? await PushClient.with(simulator, identity: stranger) { client in
                await client.when { client.isClosed }
            }
            #expect(outcome != false)
        }
        #expect(snapshot.failedHandshakes == 1)
        #expect(snapshot.connections == 0)
    }
}
