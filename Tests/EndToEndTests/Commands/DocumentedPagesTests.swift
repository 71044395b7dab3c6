import Foundation
import LocalStack
import TestSupport
import Testing

/// A page of the documentation whose commands run word for word, in order, in a shop of its own.
struct DocumentedPage: Sendable, CustomTestStringConvertible {
    let name: String
    /// SQL that prepares the shop.
    var setup = ""
    /// The reader's files. The payload file comes from the page's SQL, which then repeats the preceding command.
    var files: [String: String] = [:]
    /// Replacements for parts of commands: the reader's own names, or an answer to a question that the test cannot be
    /// asked.
    var standIns: [(page: String, own: String)] = []
    /// The beginnings of commands that do not run, with the reason.
    var left: [(beginning: String, reason: String)] = []

    var testDescription: String { name }

    private static let alert = #"{"aps":{"alert":"Hello"}}"#
    private static let device = """
        select pushq.register_device('\(Shop.queue)', 'a1', 'ann', locale => 'de', time_zone => 'Europe/Vienna',
                                     tags => '{vip}', attributes => '{"plan":"pro"}');
        """
    /// Tokens of Live Activities, as the page registers them.
    private static let activities = """
        select pushq.register_device('\(Shop.queue)', 'a1b2c3d4', 'ann', kind => 'liveactivity-start',
                                     activity_type => 'Match', tags => '{team-7}');
        select pushq.register_device('\(Shop.queue)', 'b2c3d4e5', 'ann', kind => 'liveactivity',
                                     activity_type => 'Match', activity => 'match-42');
        """
    /// The credential that every reader's queue has after a first push.
    static let credential = """
        insert into pushq.credential (tenant_id, name, kind, team_id, key_id, environments, sealed)
        select id, 'main', 'token', 'TEAM123456', 'ABC123DEFG', '{production}', '\\x01' from pushq.tenant;
        update pushq.queue q set credential_id = c.id from pushq.credential c;
        """
    private static let vips = "select pushq.save_audience('\(Shop.queue)', 'vips', 'tag ''vip''');"
    private static let match = """
        "content-state":{"score":0},"attributes-type":"Match","attributes":{"id":42},"alert":{"title":"Kick-off"}
        """

    static let all = [
        DocumentedPage(name: "audiences.md", setup: device, files: ["payload.json": alert]),
        DocumentedPage(name: "frequency-caps.md"),
        DocumentedPage(
            name: "live-activities.md", setup: activities,
            files: [
                "start.json": #"{"aps":{"timestamp":1,"event":"start",\#(match)}}"#,
                "end.json": #"{"aps":{"timestamp":2,"event":"end","content-state":{"score":3}}}"#,
            ]),
        DocumentedPage(
            name: "messages.md",
            setup: """
                select pushq.register_device('\(Shop.queue)', 'a1', 'ann', locale => 'en', attributes => '{"name":"Ann"}');
                select pushq.register_device('\(Shop.queue)', 'a2', 'eva', locale => 'de', attributes => '{"name":"Eva"}');
                """,
            files: [
                "message.json": #"""
                {"default": {"aps":{"alert":"Hi {{name}}"}}, "languages": {"de": {"aps":{"alert":"Hallo {{name}}"}}}}
                """#
            ]),
        DocumentedPage(
            name: "operating.md",
            standIns: [
                (
                    "'postgresql://pushq@db.example/push?sslmode=verify-full&sslrootcert=/etc/pushq/db-ca.pem'",
                    "\"$DATABASE\""
                ),
                ("/etc/pushq/master.key", "master.key"),
            ],
            left: [
                ("DEBFULLNAME=", "scripts/package --verify builds and installs the package"),
                ("sudo apt-get", "scripts/package --verify builds and installs the package"),
                ("source <(", "CompletionTests"), ("pushq-admin man >", "it writes to the machine"),
                ("createuser", "SettingUpTests"), ("createdb", "the shop's database is there"),
                ("psql \"$PUSHQ_DATABASE_URL\" -c \"create role", "SelfServiceTests"),
                ("pushq-admin worker grant", "SelfServiceTests"), ("pushq-admin tenant create", "the shop has it"),
                ("pushq-admin tenant grant", "SelfServiceTests"),
                ("pushq work", "it runs until it is stopped: DrainTests"),
                ("pushq-admin restore diverged", "it needs an old primary: OldPrimaryTests"),
                ("pushq-admin top --sort", "a live screen: TopTests"),
                ("pushq-admin top acme", "a live screen: TopTests"),
                ("install ", "ServiceTests runs the unit's command"),
                ("systemctl", "ServiceTests runs the unit's command"),
                ("read -rsp", "it asks for an address with a password"),
                ("docker", "ContainerTests runs the commands of the container files"), ("kubectl", "ContainerTests"),
                ("pushq-admin migrate --worker-role", "WorkerSessionTests"),
                ("export PUSHQ_DATABASE_URL='postgresql://pushq@db1", "two hosts: scripts/chaos failover"),
            ]),
        DocumentedPage(
            name: "quiet-hours.md", setup: device, files: ["payload.json": alert.replacing("Hello", with: "Sale")]),
        DocumentedPage(
            name: "schedules.md", setup: device + vips,
            files: ["payload.json": alert.replacing("Hello", with: "New offers")]),
        DocumentedPage(
            name: "troubleshooting.md",
            setup: """
                \(device)
                select pushq.register_device('\(Shop.queue)', 'b1', '4711');
                select pushq.start_campaign('\(Shop.queue)', key, '\(alert)') from unnest(array['spring-sale', 'spring']) key;
                insert into pushq.queue (tenant_id, app_id, environment) select tenant_id, id, 'sandbox' from pushq.app;
                """,
            files: ["devices.csv": "token,user_key\nc1,ann\nc2,bob\n"],
            standIns: [
                ("12:00:00Z", "12:00:00Z --yes"), ("09:00:00Z", "09:00:00Z --yes"),
                ("--reason BadDeviceToken\n", "--reason BadDeviceToken --yes\n"),
                ("cancel \(Shop.queue) spring-sale\n", "cancel \(Shop.queue) spring-sale --yes\n"),
            ],
            left: [
                ("pushq campaign", "nobody has got the campaign here: CampaignRecipientsTests")
            ]),
        DocumentedPage(
            name: "variants.md", setup: device,
            files: [
                "a.json": alert.replacing("Hello", with: "Everything must go"),
                "b.json": alert.replacing("Hello", with: "Half price"),
            ]),
        DocumentedPage(
            name: "webhooks.md",
            left: [
                ("pushq-admin webhook test", "it needs a receiver: WebhookTests"),
                ("pushq work", "it runs until it is stopped: WebhookTests"),
            ]),
    ]

    /// Pages whose commands run in other tests, or cannot run here.
    static let others = [
        "dashboard.md": "it runs until it is stopped: DashboardPageTests",
        "doctor.md": "it ends with 1 on the tests' server, which runs without fsync: DoctorTests",
        "metrics.md": "it runs until it is stopped: MetricsTests",
        "oracle.md": "its commands run for minutes: OracleTests, and scripts/oracle in .ci/run",
        "restore.md": "RestoreTests runs them on servers of its own",
        "scaling.md": "several databases: TwoDatabasesTests, TenantMoveTests, RouterTests",
        "simulator.md": "SimulatorPageTests runs them with curl and h2load",
        "sql-api.md": "DocumentedCallsTests runs its SQL, Python and PHP against a worker",
        "tuning-postgres.md": "its query needs an extension that the server has to load when it starts",
    ]
}

/// A command as a page shows it, with its expected output.
private struct DocumentedCommand {
    var words: String
    var output: [Substring] = []

    /// The commands of a page's shell blocks: in `console` after a prompt, in `sh` every line; and its SQL, for psql.
    static func all(of page: String) -> [DocumentedCommand] {
        var commands: [DocumentedCommand] = []
        for block in page.matches(of: #/\n *```(console|sh|sql)\n(.*?)\n *```/#.dotMatchesNewlines()) {
            if block.output.1 == "sql" {
                commands.append(
                    DocumentedCommand(
                        words: "psql -qXv ON_ERROR_STOP=1 -d \"$DATABASE\" <<'END'\n\(block.output.2)\nEND"))
                continue
            }
            let hasPrompts = block.output.1 == "console"
            var isContinuation = false
            for line in block.output.2.split(separator: "\n") {
                if isContinuation {
                    commands[commands.count - 1].words += "\n" + line
                } else if !hasPrompts || line.hasPrefix("$ ") {
                    commands.append(DocumentedCommand(words: String(hasPrompts ? line.dropFirst(2) : line)))
                } else {
                    commands[commands.count - 1].output.append(line)
                    continue
                }
                isContinuation = line.hasSuffix("\\")
            }
        }
        return commands
    }

    /// A pattern for a line of output. Any number matches each number, and any text matches an ellipsis.
    static func pattern(of line: Substring) throws -> Regex<AnyRegexOutput> {
        let words = line.split(separator: " ").map { word in
            NSRegularExpression.escapedPattern(for: String(word)).replacing("…", with: ".*")
                .replacing(#/[0-9](?:[0-9,]|\\\.)*/#, with: "[0-9][0-9,.]*")
        }
        return try Regex(words.joined(separator: " +"))
    }
}

@Suite(.timeLimit(.minutes(5))) struct `The commands of a page` {
    private static let docs = URL(filePath: #filePath).appending(path: "../../../../docs").standardized

    private static func text(of name: String) throws -> String {
        try String(contentsOf: docs.appending(path: name), encoding: .utf8)
    }

    @Test func `are run, of each page that shows some`() throws {
        let decided = DocumentedPage.all.map(\.name) + DocumentedPage.others.keys
        #expect(Set(decided).count == decided.count)
        for name in try FileManager.default.contentsOfDirectory(atPath: Self.docs.path) where name.hasSuffix(".md") {
            guard name != "cli.md", try !DocumentedCommand.all(of: Self.text(of: name)).isEmpty else { continue }
            #expect(decided.contains(name), "docs/\(name) shows commands that nobody runs")
        }
    }

    @Test(arguments: DocumentedPage.all)
    func `succeed in its order, and print what it shows`(page: DocumentedPage) async throws {
        let commands = try DocumentedCommand.all(of: Self.text(of: page.name)).filter { command in
            !page.left.contains { command.words.hasPrefix($0.beginning) }
        }
        #expect(!commands.isEmpty)
        for (beginning, _) in page.left {
            let isThere = try DocumentedCommand.all(of: Self.text(of: page.name)).contains {
                $0.words.hasPrefix(beginning)
            }
            #expect(isThere, "docs/\(page.name) has no “\(beginning)” any more")
        }
        try await Shop.open { shop in
            try await shop.run(DocumentedPage.credential + page.setup)
            for (name, text) in page.files { try shop.folder.write(text, to: name) }
            try shop.folder.write(String(repeating: "5c", count: 32) + "\n", to: "master.key")
            // All commands run in one shell, because a later one uses what an earlier one sets.
            var script = "cd '\(shop.folder.path(""))'; chmod 600 master.key; exec 2>&1\n"
            for (index, command) in commands.enumerated() {
                let words = page.standIns.reduce(command.words + "\n") { $0.replacing($1.page, with: $1.own) }
                script += "echo 'COMMAND \(index)'\n\(words)"
            }
            var environment = shop.environment
            environment["DATABASE"] = environment["PUSHQ_DATABASE_URL"]
            environment["PATH"] = "\(Executable.folder):\(ProcessInfo.processInfo.environment["PATH"] ?? "")"
            let ended = try await Executable(path: "/bin/bash").run(
                ["-euo", "pipefail", "-c", script], environment: environment, within: .seconds(120))
            #expect(ended.code == 0, "\(ended.output)\(ended.errors)")
            let outputs = ended.output.split(separator: #/COMMAND \d+\n/#, omittingEmptySubsequences: false).dropFirst()
            for (command, output) in zip(commands, outputs) {
                for line in command.output where line != "…" {
                    let isThere = try output.contains(DocumentedCommand.pattern(of: line))
                    #expect(isThere, "docs/\(page.name): “\(line)” after \(command.words), but it printed:\n\(output)")
                }
            }
        }
    }
}
