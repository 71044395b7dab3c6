import Foundation
import LocalStack
import QueueCore
import TestSupport
import Testing

/// Compares the members that each command prints with `--json` with the page that promises them to programs.
@Suite(.timeLimit(.minutes(10))) struct `The JSON of the commands` {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent()

    /// The rows of docs/json.md: the members by command.
    private static func promised() throws -> [String: [String]] {
        let page = try String(contentsOf: root.appending(path: "docs/json.md"), encoding: .utf8)
        var members: [String: [String]] = [:]
        for line in page.split(separator: "\n") where line.hasPrefix("| `") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            let names = (cells.count > 1 ? cells[1] : "").split(separator: "`").map(String.init)
            members[cells[0].trimmingCharacters(in: ["`"])] = names.filter { $0 != ", " && $0 != "," }.sorted()
        }
        return members
    }

    /// The paths of all members: `queue` for an object, `[].queue` for the objects of an array, `queues[].queue` for
    /// those in a member. Members whose names are data, such as reasons, are `*`.
    private static func members(of value: Any, at path: String = "") -> Set<String> {
        switch value {
        case let object as [String: Any]:
            return object.reduce(into: []) { all, member in
                let isReason = Reason.all.contains { $0.text == member.key }
                let place = (path.isEmpty ? "" : path + ".") + (isReason ? "*" : member.key)
                // The producer decides what a payload contains.
                all.formUnion(member.key == "payload" ? [place] : members(of: member.value, at: place))
            }
        case let array as [Any]:
            // An array of texts or numbers counts as a simple member.
            guard array.contains(where: { $0 is [String: Any] }) else { return [path] }
            return array.reduce(into: []) { $0.formUnion(members(of: $1, at: path + "[]")) }
        default: return [path]
        }
    }

    private static let queue = Shop.queue
    private static let token = String(repeating: "4a", count: 32)

    /// Rows that only workers write.
    private static let sample = """
        insert into pushq.worker (id, name, version) values (nextval('pushq.id'), 'w', '1');
        insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                  delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
        select body_day, queue_id, id, root_id, body_day, message_id, lane, 10, now(), '\\x80', 0, 0, 1, 0, 0, 0, 0, 0
        from pushq.job;
        delete from pushq.job where id = (select min(job_id) from pushq.result);
        insert into pushq.feedback (day, queue_id, id, device_id, root_id, reason, reported_at, verdict)
        select pushq.today(), d.queue_id, nextval('pushq.id'), d.id, 1, 1, now(), 'deactivated' from pushq.device d;
        select pushq.list_feedback(100)
        """

    /// Commands as the page names them, each with its arguments, in an order in which each has something to show.
    private static func walk(_ files: TemporaryFolder, at apple: [String]) throws -> [[String]] {
        let payload = try files.write(#"{"aps":{"alert":"hello"}}"#, to: "payload.json")
        let devices = try files.write(
            "token,user_key,time_zone\n\(String(repeating: "4b", count: 32)),43,UTC\n", to: "devices.csv")
        let personal = try files.write(#"{"aps":{"alert":"{{name|you}}"}}"#, to: "personal.json")
        let whole = try files.write(
            """
            {"token":"5a","user_key":"44","kind":"liveactivity","activity":"1","installation":"i","locale":"de",\
            "time_zone":"UTC","app_version":"1.2","tags":["vip"],"attributes":{"NAME":"x"},\
            "seen_at":"2026-01-02T00:00:00Z","first_seen_at":"2026-01-01T00:00:00Z"}
            {"token":"5b","user_key":"45","kind":"liveactivity-start","activity_type":"Match"}

            """, to: "whole.ndjson")
        let wrong = try files.write(#"{"aps":{"alert":5}}"#, to: "wrong.json")
        let users = try files.write("43\n", to: "users.txt")
        let timed = ["--local-time", "12:00", "--default-zone", "UTC", "--max-rate", "5", "--stop-at-errors", "5%"]
        let shares = ["--variant", "NAME=\(payload):20%", "--holdout", "10%"]
        let update = try files.write(
            #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#, to: "update.json")
        let key = files.path("apns") + "/AuthKey_PUSHQSIM01.p8"
        let campaign = [queue, "--payload", payload, "--audience", "all"]
        return [
            ["pushq simulate --print-token", "--folder", files.path("apns")],
            ["pushq-admin tenant grant", "acme", "LOGIN"],
            ["pushq-admin tenant logins"], ["pushq-admin tenant revoke", "acme", "LOGIN"],
            ["pushq-admin worker grant", "LOGIN"], ["pushq-admin worker revoke", "LOGIN"], ["pushq lint", wrong],
            ["pushq-admin migrate"], ["pushq-admin doctor"], ["pushq-admin doctor --list"],
            ["pushq-admin tenant create", "beta"], ["pushq-admin tenant list"], ["pushq-admin tenant where"],
            ["pushq-admin tenant show", "acme"],
            ["pushq-admin tenant set", "acme", "--rate", "900"], ["pushq-admin tenant suspend", "beta"],
            ["pushq-admin tenant resume", "beta"], ["pushq-admin app create", "beta", "com.beta"],
            ["pushq-admin app list"], ["pushq-admin queue create", "beta/com.beta/production"],
            ["pushq-admin queue list"], ["pushq-admin queue set", queue, "--rate", "500"],
            ["pushq-admin queue pause", queue, "--reason", "test"], ["pushq-admin queue resume", queue],
            ["pushq-admin credential add", "acme", "main", "--p8", key, "--team-id", "PUSHQTEAM1"],
            ["pushq-admin credential list"], ["pushq-admin credential check", "acme", "main"],
            ["pushq-admin webhook set", "acme", "--url", "https://push.acme.example/"],
            ["pushq-admin webhook show", "acme"], ["pushq-admin webhook remove", "acme", "--yes"],
            ["pushq-admin credential replace", "acme", "main", "--p8", key, "--team-id", "PUSHQTEAM1", "--yes"],
            ["pushq-admin credential rotate-master"],
            ["pushq-admin credential add", "acme", "spare", "--p8", key, "--team-id", "PUSHQTEAM1"],
            ["pushq-admin channel create", queue] + apple, ["pushq-admin channel list", queue] + apple,
            ["pushq-admin channel show", queue, "CHANNEL"] + apple,
            ["pushq broadcast", queue, "--channel", "CHANNEL", "--payload", update],
            [
                "pushq broadcast --wait", "--timeout", "1s", queue, "--channel", "CHANNEL", "--payload", update,
                "--keep-waiting",
            ],
            ["pushq-admin channel delete", queue, "CHANNEL", "--yes"] + apple,
            ["pushq-admin device register", queue, token, "--user-key", "42"],
            ["pushq-admin device import", queue, devices],
            ["pushq-admin device import", queue, whole], ["pushq-admin device list", queue],
            ["pushq-admin device show", queue, token],
            ["pushq-admin audience add", queue, "vips", "--filter", "tag 'vip'"],
            ["pushq-admin audience list", queue], ["pushq-admin audience show", queue, "vips"],
            ["pushq-admin audience remove", queue, "vips", "--yes"],
            ["pushq send", queue, "--user", "42", "--alert", "hello"],
            ["pushq send --wait", "--timeout", "1s", queue, "--user", "42", "--alert", "hello"],
            ["pushq campaign", "--key", "sale"] + campaign, ["pushq campaign --dry-run", "--key", "new"] + campaign,
            ["pushq campaign --dry-run --filter", "user is missing", "--key", "new", queue, "--payload", payload],
            ["pushq campaign --dry-run --tokens", devices, "--key", "new", queue, "--payload", payload],
            ["pushq campaign --dry-run --users", users, "--key", "new", queue, "--payload", payload],
            ["pushq campaign --dry-run --variant", "NAME=\(payload):20%", "--holdout", "10%", "--key", "new"]
                + campaign,
            ["pushq campaign --dry-run --local-time", "12:00", "--quiet-hours", "11:00-13:00", "--key", "new"]
                + campaign,
            [
                "pushq campaign --dry-run (personal message)", "--key", "new", queue, "--audience", "all", "--payload",
                personal,
            ],
            ["pushq campaign", "--key", "shared", "--filter", "user is not missing", queue, "--payload", payload]
                + timed
                + shares,
            ["pushq campaign --wait", "--timeout", "1s", "--key", "other"] + campaign,
            ["pushq schedule add", queue, "weekly", "--cron", "@weekly", "--payload", payload, "--audience", "all"],
            ["pushq schedule list", queue], ["pushq schedule show", queue, "weekly"],
            [
                "pushq schedule add", queue, "full", "--cron", "@daily", "--payload", payload, "--filter",
                "user is missing",
            ]
                + timed + shares + [
                    "--priority", "5", "--expiration", "1h", "--collapse-id", "c",
                    "--at-most-once", "--urgent", "--quiet-hours", "none", "--if-passed", "now", "--catch-up", "1h",
                    "--send-within", "20h",
                ],
            ["pushq schedule show", queue, "full"],
            ["pushq schedule pause", queue, "weekly"], ["pushq schedule resume", queue, "weekly"],
            ["pushq schedule run", queue, "weekly"], ["pushq schedule remove", queue, "weekly", "--yes"],
            ["pushq-admin campaign list"], ["pushq-admin campaign show", queue, "sale"],
            ["pushq-admin campaign show", queue, "shared"], ["pushq-admin campaign cancel", queue, "shared", "--yes"],
            ["pushq-admin campaign show", queue, "shared"],
            ["pushq-admin campaign set", queue, "sale", "--max-rate", "5"],
            ["pushq-admin campaign pause", queue, "sale"], ["pushq-admin campaign resume", queue, "sale"],
            ["pushq-admin campaign retry-failed", queue, "sale", "--yes"],
            ["pushq-admin campaign cancel", queue, "sale", "--yes"],
            ["pushq-admin send show", queue, "SEND"], ["pushq-admin trace", queue, "--send", "SEND"],
            ["pushq-admin job list"], ["pushq-admin job list --failed"], ["pushq-admin job show", queue, "JOB"],
            ["pushq-admin job retry", queue, "JOB"], ["pushq-admin job retry --reason", "NoAnswer", queue, "--yes"],
            ["pushq-admin job cancel", queue, "JOB", "--yes"],
            ["pushq-admin job cancel --since", "2020-01-01T00:00:00Z", queue, "--yes"],
            ["pushq-admin job resume", queue], ["pushq-admin send cancel", queue, "SEND", "--yes"],
            ["pushq-admin device export", queue, "--all"], ["pushq-admin feedback export", queue],
            ["pushq-admin feedback tail", queue, "--after", "0", "--timeout", "1ms"],
            ["pushq-admin feedback list", queue], ["pushq-admin worker list"], ["pushq-admin stats"],
            ["pushq-admin top --once"], ["pushq-admin audit"], ["pushq-admin restore show"],
            ["pushq-admin router"],
            ["pushq-admin device deactivate", queue, token], ["pushq-admin device reactivate", queue, token],
            ["pushq-admin device reactivate --reason", "Unregistered", queue, "--yes"],
            ["pushq-admin device forget", queue, token, "--yes"],
            ["pushq-admin device forget --user", "45", queue, "--yes"],
            ["pushq-admin credential remove", "acme", "spare", "--yes"],
            ["pushq send", queue, "--user", "43", "--alert", "before"], ["pushq-admin restore declare", "--yes"],
            ["pushq-admin restore show"], ["pushq-admin restore resume", queue, "--send"],
            ["pushq-admin app remove", "beta", "com.beta", "--yes"],
            ["pushq-admin tenant remove", "beta", "--yes"],
        ]
    }

    /// Queries for words in ``walk(_:at:)`` that are known only at run time.
    private static let unknown = [
        "SEND": "select min(root_id)::text as text from pushq.result",
        "JOB": "select min(job_id)::text as text from pushq.result",
        "CHANNEL": "select channel as text from pushq.channel",
    ]

    @Test func `has null where there is no value, and the word for it is for people only`() async throws {
        try await Shop.open { shop in
            let shown = try await shop.admin("tenant", "show", "acme", "--json")
            let tenant = try #require(
                JSONSerialization.jsonObject(with: Data(shown.output.utf8)) as? [String: Any])
            let row = try #require(try await shop.list("tenant", "list").first)
            let names = [
                "connections", "history_days", "feedback_days", "audit_days", "key_days", "max_devices", "max_waiting",
                "max_day_bytes", "max_calls", "max_campaigns", "max_schedules", "webhook",
            ]
            for name in names { #expect(tenant[name] is NSNull, "\(name)") }
            for name in ["history_days", "feedback_days"] { #expect(row[name] is NSNull, "\(name)") }
            let text = try await shop.admin("tenant", "show", "acme").output
            #expect(text.contains(/history days +usual\n/) && text.contains(/max waiting +none\n/))
            let set = try await shop.admin("tenant", "set", "acme", "--history-days", "30", "--max-waiting", "5")
            #expect(set.code == 0, "\(set.errors)")
            #expect(try await shop.admin("tenant", "show", "acme", "--json").output.contains(#""history_days":30"#))
        }
    }

    @Test func `has the values of a device and a schedule in the types that they have`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                select pushq.register_device('\(Self.queue)', '\(Self.token)', null, tags => array['beta', 'vip'],
                                             attributes => '{"plan": "pro\\u202e", "visits": 7}')
                """)
            let shown = try await shop.admin("device", "show", Self.queue, Self.token, "--json")
            let device = try #require(JSONSerialization.jsonObject(with: Data(shown.output.utf8)) as? [String: Any])
            #expect(device["tags"] as? [String] == ["beta", "vip"])
            let attributes = try #require(device["attributes"] as? [String: Any])
            #expect(attributes["plan"] as? String == "pro\u{202E}" && attributes["visits"] as? Int == 7)
            #expect(shown.output.unicodeScalars.allSatisfy { $0 != "\u{202E}" }, "it would steer a terminal")
            let payload = try shop.folder.write(#"{"aps":{"alert":"hello"}}"#, to: "payload.json")
            let added = try await shop.pushq(
                "schedule", "add", Self.queue, "daily", "--cron", "@daily", "--payload", payload, "--audience", "all",
                "--priority", "5", "--max-rate", "2.5", "--variant", "b=\(payload):20%", "--json")
            #expect(added.output.contains(#""priority":5,"#) && added.output.contains(#""max_rate":2.5,"#), "\(added)")
            let schedule = try #require(JSONSerialization.jsonObject(with: Data(added.output.utf8)) as? [String: Any])
            let variant = try #require((schedule["variants"] as? [[String: Any]])?.first)
            #expect(variant["name"] as? String == "b" && variant["share"] as? Double == 0.2)
            #expect(variant["payload"] is [String: Any])
        }
    }

    @Test func `has the members that its page promises`() async throws {
        try await Shop.open { shop in
            let login = "json_\(UInt32.random(in: 0 ... .max))"
            try await shop.run("create role \(login) login")
            let simulator = try await Apple(in: shop)
            let promised = try Self.promised()
            var found: [String: Set<String>] = [:]
            for words in try Self.walk(shop.folder, at: simulator.options) {
                if words[0] == "pushq-admin send show" { try await shop.run(Self.sample) }
                // The page says in parentheses what the arguments do not.
                var arguments = words[0].prefix { $0 != "(" }.split(separator: " ").map(String.init)
                for word in words.dropFirst() {
                    if let query = Self.unknown[word] {
                        arguments.append(try #require(try await shop.texts(query).first, "\(words)"))
                    } else {
                        arguments.append(word == "LOGIN" ? login : word)
                    }
                }
                let executable: Executable = arguments[0] == "pushq" ? .pushq : .admin
                let ended = try await executable.run(arguments.dropFirst() + ["--json"], environment: shop.environment)
                // Some commands print one object per line.
                let values = ended.output.split(separator: "\n").compactMap {
                    try? JSONSerialization.jsonObject(with: Data($0.utf8), options: .fragmentsAllowed)
                }
                if !values.isEmpty {
                    // No worker runs, so nothing is refused and there are no reasons.
                    let reasons = words[0].hasSuffix(" --wait") || words[0].hasSuffix("campaign show") ? ["*"] : []
                    // A command that is run twice has shown different things.
                    found[words[0], default: []].formUnion(reasons + values.flatMap { Self.members(of: $0) })
                } else {
                    Issue.record("\(words[0]): \(ended.output) \(ended.errors)")
                }
            }
            for (name, members) in found.sorted(by: { $0.key < $1.key }) where promised[name] != members.sorted() {
                Issue.record("| `\(name)` | \(members.sorted().map { "`\($0)`" }.joined(separator: ", ")) |")
            }
            let others = Set(promised.keys).subtracting(found.keys).subtracting(Self.elsewhere)
            #expect(others.isEmpty, "the page promises these, and no test looks at them")
            simulator.process.signal(SIGTERM)
            _ = await simulator.process.waitForExit(within: .seconds(60))
            let lines = shop.folder.read("simulator.out").split(separator: "\n").map { Data($0.utf8) }
            #expect(lines.count == 2)
            for (line, name) in zip(lines, ["pushq simulate", "pushq simulate (at its end)"]) {
                let members = try Self.members(of: JSONSerialization.jsonObject(with: line)).sorted()
                if promised[name] != members {
                    Issue.record("| `\(name)` | \(members.map { "`\($0)`" }.joined(separator: ", ")) |")
                }
            }
        }
    }

    /// Promised commands that other tests check.
    private static let elsewhere: Set = [
        "pushq demo", "pushq dev", "pushq simulate", "pushq simulate (at its end)", "pushq-admin webhook test",
        "pushq-admin tenant move",
        "pushq-admin campaign recipients", "pushq-admin tenant move --abandon", "pushq-admin restore diverged",
        "pushq-admin restore diverged --apns-ids",
    ]
}

/// A simulator in Apple's place, with the management of channels.
private struct Apple: Sendable {
    let process: ChildProcess
    /// The options for commands that ask Apple.
    let options: [String]

    init(in shop: Shop) async throws {
        process = try Executable.pushq.start(
            ["simulate", "--json", "--port", "0", "--management-port", "0", "--folder", shop.folder.path("apns")],
            environment: shop.environment, output: shop.folder.path("simulator.out"),
            errors: shop.folder.path("simulator.log"))
        let said = try await eventually("the simulator is ready") {
            shop.folder.read("simulator.out")
        } until: {
            $0.hasSuffix("\n")
        }
        let facts = try JSONSerialization.jsonObject(with: Data(said.utf8)) as? [String: Any]
        options = [
            "--management", try #require(facts?["management"] as? String), "--ca",
            try #require(facts?["ca"] as? String),
        ]
    }
}
