import APNsSimulator
import Foundation
import Testing

/// The simulator as a client sees it that this project did not write: curl, with nghttp2 below it.
@Suite(.enabled(if: Curl.path != nil, "curl with HTTP/2 is not here (apt-get install curl)"))
struct `A foreign client` {
    @Test func `is let in with a certificate`() async throws {
        try await withSimulator { simulator in
            let certificate = try simulator.authority.clientCertificate(topic: "com.example.App")
            let answer = try await Curl.push(
                to: simulator, ["--cert", certificate.file, "-H", "apns-topic: com.example.App", "-d", "{}"])
            #expect(answer == "2 200 ")
        }
    }

    @Test func `is let in with a token`() async throws {
        try await withSimulator { simulator in
            let token = "authorization: \(try simulator.token())"
            let arguments = ["-H", token, "-H", "apns-topic: com.example.App", "-H", "apns-push-type: alert"]
            #expect(try await Curl.push(to: simulator, arguments + ["-d", "{}"]) == "2 200 ")
        }
    }

    @Test func `is told what it does wrong`() async throws {
        let snapshot = try await withSimulator { simulator in
            let certificate = try simulator.authority.clientCertificate(topic: "com.example.App")
            let cases: [([String], String)] = [
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
            ]
            for (arguments, answer) in cases {
                #expect(try await Curl.push(to: simulator, ["--cert", certificate.file] + arguments) == answer)
            }
        }
        #expect(snapshot.arrived == 5)
    }

    @Test func `creates a channel, and broadcasts to it`() async throws {
        let snapshot = try await withSimulator(configured { $0.managementPort = 0 }) { simulator in
            let token = ["-H", "authorization: \(try simulator.token())"]
            let creation = #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#
            let made = try await Curl.request(
                "https://localhost:\(simulator.managementPort ?? 0)/1/apps/com.example.App/channels", of: simulator,
                token + ["-D", "-", "-d", creation])
            #expect(made.hasPrefix("2 201 "))
            let channel = try #require(made.firstMatch(of: /apns-channel-id: (\S+)/)?.output.1)
            let fields = ["apns-channel-id: \(channel)", "apns-push-type: liveactivity", "apns-priority: 10"]
            let sent = try await Curl.request(
                "https://localhost:\(simulator.port)/4/broadcasts/apps/com.example.App", of: simulator,
                token + (fields + ["apns-expiration: 0"]).flatMap { ["-H", $0] } + ["-d", "{}"])
            #expect(sent == "2 200 ")
        }
        #expect(snapshot.accepted == 1)
    }

    @Test func `is not let in with HTTP/1.1`() async throws {
        try await withSimulator { simulator in
            let certificate = try simulator.authority.clientCertificate(topic: "com.example.App")
            let answer = try await Curl.push(to: simulator, ["--cert", certificate.file, "--http1.1", "-d", "{}"])
            #expect(answer.hasSuffix(" 000 "))
        }
    }
}

private enum Curl {
    static let path: String? = {
        ["/usr/bin/curl", "/usr/local/bin/curl"].first { path in
            FileManager.default.isExecutableFile(atPath: path)
                && (try? run(path, ["--version"]))?.contains("HTTP2") == true
        }
    }()

    /// Sends a push; answers with HTTP version, status and body.
    static func push(to simulator: Simulator, _ arguments: [String]) async throws -> String {
        try await request("https://localhost:\(simulator.port)/3/device/\(PushClient.token)", of: simulator, arguments)
    }

    /// The same for any address of a simulator's.
    static func request(_ url: String, of simulator: Simulator, _ arguments: [String]) async throws -> String {
        let common = [
            "-s", "--max-time", "10", "--cacert", simulator.authority.caFile, "-o", "-", "-w",
            "\n%{http_version} %{http_code} ",
        ]
        let output = try run(path!, common + ["--http2"] + arguments + [url])
        guard let end = output.lastIndex(of: "\n") else { return output }
        return String(output[output.index(after: end)...] + output[..<end])
    }

    private static func run(_ path: String, _ arguments: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: path)
        process.arguments = arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self)
    }
}
