import APNs
import APNsSimulator
import Cryptography
import FoundationEssentials
import QueueCore
import Terminal
import Transport

struct SimulateCommand: Command {
    static let name = "simulate"
    static let users = CommandUsers.anybody
    static let summary =
        "Runs a local APNs simulator: takes pushes, checks them by Apple's rules, answers and counts."
    static let discussion = """
        It makes its own certificate authority, server certificate and signing key in --folder, and says where they \
        are. It answers until it is stopped, and then prints what it counted. With --json it prints two objects, one \
        per line.

        Rules are JSON. They say what happens to requests that break none of Apple's rules: {"latency_ms": [5, 50], \
        "outcomes": [{"token_prefix": "dead", "reason": "Unregistered"}, {"share": 0.01, "reason": "BadDeviceToken"}, \
        {"probability": 0.02, "reason": "TooManyRequests", "times": 2}], "go_away": {"after_requests": 100000}}

        Over the binary interface a refusal is an error packet, which ends the connection. The packet is sent after \
        the latency. Pushes that arrived in that time, after the refused one, are discarded.
        """
    static let examples = [
        "simulate", "simulate --port 2197 --latency 5ms-50ms",
        "simulate --print-token",
        "simulate --rules examples/rules.json --record arrived.ndjson", "simulate --management-port 2196",
        "simulate --binary-port 2195 --feedback-port 2196 --client-certificate com.acme.shop",
    ]

    @Option("The address to listen on, or a name of it.") var host: String = "127.0.0.1"
    @Option("A name or address that clients use beside the host and localhost; for the server's certificate.", "NAME")
    var serverName: [String]
    @Option("The port to listen on; 0 takes a free one.") var port: PortNumber = PortNumber(2197)
    @Option("Also manage broadcast channels on this port; 0 takes a free one.") var managementPort: PortNumber?
    @Option("Also speak the old binary interface on this port; 0 takes a free one.") var binaryPort: PortNumber?
    @Option("Also run the feedback service on this port; 0 takes a free one.") var feedbackPort: PortNumber?
    @Option("Maximum number of channels of an app.") var channels: Count = 10_000
    @Option("The folder of its certificates and keys; missing ones are made.", "FOLDER") var folder: String =
        "pushq-simulator"
    @Option("Which environment of APNs to simulate.") var environment: Environment = .production
    @Option("A file with rules.") var rules: InputFile?
    @Option("How long answers take, such as 20ms, or a range: 5ms-50ms.") var latency: LatencyRange?
    @Option("Write every request and answer to this file, one JSON object per line.", "FILE") var record: String?
    @Option("Maximum number of streams of a connection.") var streams: Int = 1000
    @Option("Maximum number of streams before the connection has shown a valid token.") var streamsBeforeToken: Int = 1
    @Option("A bundle ID for which tokens are accepted; by default all are.", "BUNDLE-ID") var bundleId: [String]
    @Option("Make a client certificate for this bundle ID in the folder.", "BUNDLE-ID") var clientCertificate:
        [BundleID]
    @Flag("Answer with apns-id in upper case, as APNs has been seen to do.") var upperCaseIds
    @Option("Reserve memory for this number of requests.") var expect: Count?
    @Flag("Print a provider token of the folder's signing key, valid for an hour, and exit.") var printToken

    func run(_ console: Console) async throws {
        guard !printToken else { return try showToken(on: console) }
        let simulator = try await Simulator.start(try configuration())
        console.show(try facts(of: simulator))
        for await _ in Signals.stream() { break }
        let snapshot = await simulator.stop()
        report(snapshot, on: console)
        guard snapshot.isRecordComplete else {
            throw Failure("cannot write all of \(record ?? ""): is the disk full?")
        }
    }

    /// Prints a token for requests by hand: `curl -H "authorization: bearer $(pushq simulate --print-token)"`.
    private func showToken(on console: Console) throws {
        let token = try ProviderToken.mint(
            key: try TestAuthority(folder: folder).signingKey, keyID: TestAuthority.keyID,
            teamID: TestAuthority.teamID, now: Int64(Date.now.timeIntervalSince1970))
        console.show(token.text, json: ["token": .string(token.text)])
    }

    /// Memory for this number takes 4.5 GB, at 17 bytes a row in a table of the next power of two.
    private static let maximumExpected = 100_000_000

    private func configuration() throws -> SimulatorConfiguration {
        for (option, number) in [("--streams", streams), ("--streams-before-token", streamsBeforeToken)]
        where !(1...1_000_000).contains(number) {
            throw UsageError("\(option) \(number) is not between 1 and 1000000")
        }
        if let expect, expect.number > Self.maximumExpected {
            throw UsageError("--expect \(expect.number) is more than \(Self.maximumExpected)")
        }
        if let name = serverName.first(where: { !$0.isServerName }) {
            throw UsageError("--server-name \(name.printable()) is neither a host name nor an IP address")
        }
        var configuration = SimulatorConfiguration(folder: folder)
        configuration.host = host
        configuration.serverNames = serverName
        configuration.port = port.number
        configuration.managementPort = managementPort?.number
        configuration.binaryPort = binaryPort?.number
        configuration.feedbackPort = feedbackPort?.number
        configuration.channelLimit = channels.number
        configuration.environment = environment
        configuration.rules = try readRules()
        configuration.streamLimit = streams
        configuration.streamLimitBeforeToken = streamsBeforeToken
        configuration.bundleIDs = bundleId.isEmpty ? nil : bundleId
        configuration.returnsUpperCaseIDs = upperCaseIds
        configuration.recordFile = record
        configuration.expectedRequestCount = expect?.number ?? 0
        return configuration
    }

    private func readRules() throws -> Rules {
        var rules = Rules()
        if let file = self.rules {
            do {
                rules = try Rules(json: try file.contents())
            } catch let error as SimulatorError {
                throw Failure("\(file.name): \(error)")
            }
        }
        if let latency { rules.latency = latency.range }
        return rules
    }

    private func facts(of simulator: Simulator) throws -> [(name: String, value: Cell)] {
        let certificates = try clientCertificate.map { bundleID in
            ("client_certificate", Cell.text(try simulator.authority.clientCertificate(topic: bundleID.text).file))
        }
        var facts: [(name: String, value: Cell)] = [
            ("address", .text(HostAndPort(host: simulator.host, port: simulator.port).shown))
        ]
        if let port = simulator.binaryPort {
            facts.append(("binary", .text(HostAndPort(host: simulator.host, port: port).shown)))
        }
        if let port = simulator.feedbackPort {
            facts.append(("feedback", .text(HostAndPort(host: simulator.host, port: port).shown)))
        }
        if let port = simulator.managementPort {
            facts.append(("management", .text(HostAndPort(host: simulator.host, port: port).shown)))
        }
        facts += [
            ("ca", .text(simulator.authority.caFile)), ("signing_key", .text(simulator.authority.signingKeyFile)),
            ("key_id", .text(TestAuthority.keyID)), ("team_id", .text(TestAuthority.teamID)),
        ]
        return facts + certificates
    }

    private func report(_ snapshot: Snapshot, on console: Console) {
        guard !console.speaksJSON else {
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            return console.print((try? encoder.encode(snapshot)).map { String(decoding: $0, as: UTF8.self) } ?? "{}")
        }
        console.show(
            [
                ("arrived", .count(snapshot.arrived)), ("distinct", .count(snapshot.distinct)),
                ("repeated", .count(snapshot.repeated)), ("accepted", .count(snapshot.accepted)),
            ] + snapshot.refused.sorted { $0.key < $1.key }.map { ($0.key, Cell.count($0.value)) }
                + [("connections", .count(snapshot.connections))])
    }
}

/// The latency of answers: `20ms`, or a range of durations: `5ms-50ms`.
struct LatencyRange: ArgumentValue, Sendable {
    let range: ClosedRange<Duration>

    static let placeholder = "DURATION"

    static func parse(_ text: String) throws(InvalidValue) -> LatencyRange {
        let parts = text.split(separator: "-", maxSplits: 1).map(String.init)
        guard let first = parts.first else { throw InvalidValue("is empty") }
        let low = try Duration.parse(first)
        let high = parts.count == 2 ? try Duration.parse(parts[1]) : low
        guard low <= high else { throw InvalidValue("has its larger bound first") }
        return LatencyRange(range: low...high)
    }
}
