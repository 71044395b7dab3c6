import APNsSimulator
import Testing

/// curl, which uses nghttp2.
@Suite(.interop, .timeLimit(.minutes(10)))
struct `curl and the simulator` {
    @Test func `agree on a certificate and on a token`() async throws {
        let own = try await OwnSimulator.start()
        let topic = ["-H", "apns-topic: com.example.App", "-d", "{}"]
        let certificate = ["--cert", try own.certificate()]
        let token = ["-H", "authorization: \(try own.authorization())", "-H", "apns-push-type: alert"]
        for credential in [certificate, token] {
            #expect(try await answer(of: own, credential + topic) == "2 200 ")
        }
        #expect(await own.simulator.stop().accepted == 2)
    }

    @Test func `agree on a thousand pushes through one connection`() async throws {
        let own = try await OwnSimulator.start()
        let url = own.url(String(repeating: "0", count: 60)).dropLast(4) + "[1000-1999]"
        let arguments =
            ["--parallel", "--http2", "--silent", "--show-error", "--cacert", own.simulator.authority.caFile]
            + ["--cert", try own.certificate(), "-H", "apns-topic: com.example.App", "-d", #"{"aps":{"badge":1}}"#]
            + ["--write-out", "%{http_version} %{http_code}\n", "-o", "/dev/null", String(url)]
        let lines = try await ForeignProgram("curl").run(arguments).split(separator: "\n")
        #expect(lines.count == 1000)
        #expect(lines.allSatisfy { $0 == "2 200" })
        let counted = await own.simulator.stop()
        #expect(counted.accepted == 1000)
        #expect(counted.connections == 1)
    }

    @Test(arguments: [
        (["-X", "GET"], #"2 405 {"reason":"MethodNotAllowed"}"#),
        (["-H", "apns-topic: com.example.App", "-d", ""], #"2 400 {"reason":"PayloadEmpty"}"#),
        (
            ["-H", "apns-topic: com.example.App", "-H", "apns-priority: 2", "-d", "{}"],
            #"2 400 {"reason":"BadPriority"}"#
        ),
        (
            ["-H", "apns-topic: com.example.App", "-d", String(repeating: "x", count: 100_000)],
            #"2 413 {"reason":"PayloadTooLarge"}"#
        ),
        (["-d", "{}"], #"2 400 {"reason":"MissingTopic"}"#),
        (["-H", "apns-topic: com.example.Other", "-d", "{}"], #"2 400 {"reason":"TopicDisallowed"}"#),
    ])
    func `agree on what breaks a rule`(arguments: [String], answer: String) async throws {
        let own = try await OwnSimulator.start()
        #expect(try await self.answer(of: own, ["--cert", try own.certificate()] + arguments) == answer)
        #expect(await own.simulator.stop().arrived == 1)
    }

    @Test(arguments: [
        ("bad0", #"2 400 {"reason":"BadDeviceToken"}"#),
        ("dead", #"2 410 {"reason":"Unregistered","timestamp":1458114061260}"#),
        ("5100", #"2 429 7{"reason":"TooManyRequests"}"#),
        ("b0b0", #"2 503 {"reason":"ServiceUnavailable"}"#),
    ])
    func `agree on what is refused`(token: String, answer: String) async throws {
        let own = try await OwnSimulator.start()
        let arguments = ["--cert", try own.certificate(), "-H", "apns-topic: com.example.App", "-d", "{}"]
        #expect(try await self.answer(of: own, arguments, token: token) == answer)
    }

    @Test(arguments: [
        ([], #"2 403 {"reason":"MissingProviderToken"}"#),
        (["-H", "authorization: bearer a.b.c"], #"2 403 {"reason":"InvalidProviderToken"}"#),
    ])
    func `agree on who is not let in`(arguments: [String], answer: String) async throws {
        let own = try await OwnSimulator.start()
        #expect(
            try await self.answer(of: own, arguments + ["-H", "apns-topic: com.example.App", "-d", "{}"]) == answer)
    }

    @Test func `agree on a channel and a broadcast to it`() async throws {
        let own = try await OwnSimulator.start { $0.managementPort = 0 }
        let token = ["-H", "authorization: \(try own.authorization())"]
        let creation = #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#
        let made = try await answer(
            from: "https://localhost:\(own.simulator.managementPort ?? 0)/1/apps/com.example.App/channels", of: own,
            token + ["--dump-header", "-", "-d", creation])
        #expect(made.hasPrefix("2 201 "))
        let channel = try #require(made.firstMatch(of: /apns-channel-id: (\S+)/)?.output.1)
        let fields = ["apns-channel-id: \(channel)", "apns-push-type: liveactivity", "apns-priority: 10"]
        let sent = try await answer(
            from: "https://localhost:\(own.simulator.port)/4/broadcasts/apps/com.example.App", of: own,
            token + (fields + ["apns-expiration: 0"]).flatMap { ["-H", $0] } + ["-d", "{}"])
        #expect(sent == "2 200 ")
        #expect(await own.simulator.stop().accepted == 1)
    }

    @Test func `do not get together over HTTP/1.1`() async throws {
        let own = try await OwnSimulator.start()
        await #expect(throws: ForeignProgram.Failed.self) {
            try await answer(of: own, ["--cert", try own.certificate(), "--http1.1", "-d", "{}"])
        }
        #expect(await own.simulator.stop().arrived == 0)
    }

    /// Sends a push. Returns HTTP version, status, `retry-after` and body.
    private func answer(of own: OwnSimulator, _ arguments: [String], token: String = "00") async throws -> String {
        try await answer(from: own.url(token), of: own, arguments)
    }

    /// Does the same for any URL of a simulator.
    private func answer(from url: String, of own: OwnSimulator, _ arguments: [String]) async throws -> String {
        let common = [
            "--silent", "--http2", "--max-time", "10", "--cacert", own.simulator.authority.caFile, "--write-out",
            "\n%{http_version} %{http_code} %header{retry-after}",
        ]
        let output = try await ForeignProgram("curl").run(common + arguments + [url])
        guard let end = output.lastIndex(of: "\n") else { return output }
        return String(output[output.index(after: end)...] + output[..<end])
    }
}
