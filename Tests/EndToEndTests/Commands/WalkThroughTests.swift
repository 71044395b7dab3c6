import Foundation
import LocalStack
import PostgresStore
import TestSupport
import Testing

/// Follows the steps of the README, with a simulator in Apple's place.
@Suite(.timeLimit(.minutes(10))) struct `The commands, step by step` {
    @Test func `from an empty database to a campaign that has come to its end`() async throws {
        try await withEmptyDatabase { _, database in
            let hand = try await Hand(database: database.name)
            try await hand.does("pushq-admin", "migrate")
            try await hand.does("pushq-admin", "migrate", saying: "the schema is up to date")
            try await hand.does("pushq-admin", "tenant", "create", "acme")
            try await hand.does("pushq-admin", "app", "create", "acme", "com.acme.shop")
            try await hand.does("pushq-admin", "queue", "create", Shop.queue, "--rate", "2000")
            let (simulator, gateway) = try await hand.startSimulator()
            try await hand.does(
                "pushq-admin", "credential", "add", "acme", "main", "--p8", gateway.signingKey, "--team-id",
                gateway.team,
                saying: "used by \(Shop.queue)")
            try await hand.does("pushq-admin", "credential", "check", "acme", "main", saying: "EC prime256v1")

            let worker = try hand.startWorker(gateway)
            let token = String(repeating: "ab", count: 32)
            try await hand.does(
                "pushq", "send", Shop.queue, "--token", token, "--alert", "hello", "--wait", saying: "delivered   1")
            try await hand.does("pushq-admin", "device", "import", Shop.queue, try hand.devices(count: 500))
            for _ in 0..<2 {  // under one key it is one campaign
                try await hand.does(
                    "pushq", "campaign", Shop.queue, "--key", "spring", "--payload", try hand.payload(), "--audience",
                    "all", "--wait", saying: "delivered   501")
            }
            try await hand.does("pushq-admin", "campaign", "list", saying: "finished")
            try await hand.does("pushq-admin", "worker", "list", saying: "0.1.0")
            try await hand.does("pushq-admin", "stats", saying: "502")

            worker.signal(SIGTERM)
            #expect(await worker.waitForExit(within: .seconds(60)) == .code(0))
            simulator.signal(SIGTERM)
            #expect(await simulator.waitForExit(within: .seconds(60)) == .code(0))
            #expect(hand.folder.read("simulator.out").contains("\"arrived\":502,"))
        }
    }
}

/// The simulator's address, and the CA file to trust.
private struct Gateway: Decodable, Sendable {
    let address: String
    let ca: String
    let signingKey: String
    let team: String

    enum CodingKeys: String, CodingKey {
        case address, ca
        case signingKey = "signing_key"
        case team = "team_id"
    }
}

/// A person who types commands.
private struct Hand: Sendable {
    let folder: TemporaryFolder
    private let environment: [String: String]

    init(database: String) async throws {
        folder = try TemporaryFolder()
        let masterKeyFile = try folder.write(String(repeating: "5c", count: 32) + "\n", to: "master.key")
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: masterKeyFile)
        environment = [
            "PUSHQ_DATABASE_URL": try await TestServer.shared().connectionString(database: database),
            "PUSHQ_MASTER_KEY_FILE": masterKeyFile,
        ]
    }

    /// Runs a command, which must succeed and print `text`.
    func does(
        _ words: String..., saying text: String = "", sourceLocation: SourceLocation = #_sourceLocation
    ) async throws {
        let executable: Executable = words[0] == "pushq" ? .pushq : .admin
        let ended = try await executable.run(Array(words.dropFirst()), environment: environment)
        #expect(ended.code == 0, "\(words): \(ended.errors)", sourceLocation: sourceLocation)
        #expect(text.isEmpty || ended.output.contains(text), "\(ended.output)", sourceLocation: sourceLocation)
    }

    func startSimulator() async throws -> (ChildProcess, Gateway) {
        let process = try Executable.pushq.start(
            ["simulate", "--json", "--port", "0", "--folder", folder.path("apns")], environment: environment,
            output: folder.path("simulator.out"), errors: folder.path("simulator.log"))
        let said = try await eventually("the simulator is ready") {
            folder.read("simulator.out")
        } until: {
            $0.hasSuffix("\n")
        }
        return (process, try JSONDecoder().decode(Gateway.self, from: Data(said.utf8)))
    }

    func startWorker(_ gateway: Gateway) throws -> ChildProcess {
        try Executable.pushq.start(
            ["work", "--gateway", gateway.address, "--ca", gateway.ca], environment: environment,
            output: folder.path("worker.out"), errors: folder.path("worker.log"))
    }

    func devices(count: Int) throws -> String {
        let tokens = (0..<count).map { String(repeating: "0", count: 60) + String(1000 + $0) }
        return try folder.write("token\n" + tokens.joined(separator: "\n") + "\n", to: "devices.csv")
    }

    func payload() throws -> String {
        try folder.write(#"{"aps":{"alert":"Everything at half price"}}"#, to: "payload.json")
    }
}
