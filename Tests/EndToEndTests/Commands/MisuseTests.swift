import Cryptography
import Foundation
import LocalStack
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `Output that cannot be written` {
    @Test(arguments: [
        ["device", "export", Shop.queue], ["queue", "list"], ["queue", "list", "--json"], ["--help"], ["--version"],
        ["doctor"], ["doctor", "--json"],
    ])
    func `ends a command with exit 1 on a full disk`(words: [String]) async throws {
        try await Shop.open { shop in
            try await shop.run("insert into pushq.device (queue_id, token) select id, 'ab' from pushq.queue")
            let process = try Executable.admin.start(
                words, environment: shop.environment, output: "/dev/full", errors: shop.folder.path("err"))
            #expect(await process.waitForExit(within: .seconds(60)) == .code(1))
            #expect(shop.folder.read("err").contains("cannot write the output: No space left on device"))
        }
    }

    @Test func `ends a command quietly when its reader is gone, and at once`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                insert into pushq.device (queue_id, token)
                select q.id, int8send(i) from pushq.queue q, generate_series(1, 200000) i
                """)
            let admin = Executable.admin.command([], output: "", errors: "").executable
            let script = "'\(admin)' device export \(Shop.queue) | head -n 1; echo ${PIPESTATUS[0]}"
            var command = ProcessCommand("/bin/bash", ["-c", script], environment: shop.environment)
            command.output = .file(shop.folder.path("out"))
            command.errors = .file(shop.folder.path("err"))
            let reaper = try Reaper()
            #expect(await (try reaper.start(command)).waitForExit(within: .seconds(60)) == .code(0))
            await reaper.end()
            #expect(shop.folder.read("out").hasSuffix(",seen_at\n\(128 + SIGPIPE)\n"))
            #expect(shop.folder.read("err") == "")
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A worker whose log nobody reads any more` {
    @Test func `ends with its own code, and by no signal`() async throws {
        let log = Pipe()
        try log.fileHandleForReading.close()
        let url = try await TestServer.shared().connectionString(database: "nowhere")
        var command = Executable.pushq.command(["work", "--database-url", url], output: "/dev/null", errors: "")
        command.errors = .descriptor(log.fileHandleForWriting.fileDescriptor)
        let reaper = try Reaper()
        let worker = try reaper.start(command)
        // A thread without an event loop writes the reason for the exit.
        #expect(await worker.waitForExit(within: .seconds(60)) == .code(1))
        await reaper.end()
    }

    /// As of a terminal that Ctrl-S has stopped.
    @Test func `waits for no reader that has stopped reading`() async throws {
        let log = Pipe()
        let descriptor = log.fileHandleForWriting.fileDescriptor
        _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
        let filler = [UInt8](repeating: UInt8(ascii: "x"), count: 4096)
        while unsafe filler.withUnsafeBytes({ unsafe write(descriptor, $0.baseAddress, $0.count) }) > 0 {}
        _ = fcntl(descriptor, F_SETFL, 0)
        let url = try await TestServer.shared().connectionString(database: "nowhere")
        var command = Executable.pushq.command(["work", "--database-url", url], output: "/dev/null", errors: "")
        command.errors = .descriptor(descriptor)
        let reaper = try Reaper()
        let worker = try reaper.start(command)
        #expect(await worker.waitForExit(within: .seconds(60)) == .code(1))
        await reaper.end()
        try log.fileHandleForReading.close()
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A password file that others may read` {
    @Test func `is not read, and that is said as JSON where the rest is JSON`() async throws {
        try await Shop.open { shop in
            let file = try shop.folder.write("*:*:*:*:sesame\n", to: ".pgpass")
            try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: file)
            let home = ["HOME": shop.folder.path("")]
            let listed = try await Executable.admin.run(
                ["queue", "list", "--json"], environment: shop.environment.merging(home) { $1 })
            #expect(listed.code == 0)
            let url = try await TestServer.shared().connectionString(database: "nowhere")
            let worked = try await Executable.pushq.run(
                ["work", "--database-url", url, "--log-format", "json"], environment: home)
            #expect(worked.code == 1)
            // The line contains its level once.
            #expect(!worked.errors.contains("warning: "), "\(worked.errors)")
            for lines in [listed.errors, worked.errors].map({ $0.split(separator: "\n") }) {
                #expect(lines.contains { $0.contains("no password is read from") })
                for line in lines { _ = try JSONSerialization.jsonObject(with: Data(line.utf8)) }
            }
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A role for workers that is not there` {
    @Test func `is named in one line, before anything is migrated`() async throws {
        try await Shop.open { shop in
            expectFailure(
                try await Executable.admin.run(
                    ["migrate", "--worker-role", "nobody"], environment: shop.environment),
                code: 1, saying: "migrate: the database has no role nobody: create it with PostgreSQL's create role")
        }
    }
}

@Suite(.timeLimit(.minutes(5))) struct `A value that is wrong by itself` {
    @Test(arguments: [
        (["--priority", "7"], "--priority 7 is unknown: use 10, 5 or 1"),
        (["--badge-increment", "0"], "--badge-increment 0 is out of range"),
        (["--priority", "1,0"], "--priority '1,0' is not a whole number"),
        (["--badge-increment", "1,5"], "--badge-increment '1,5' is not a whole number"),
        (["--push-type", "foo"], "--push-type 'foo' must be one of"),
    ])
    func `makes a command line wrong, which is exit code 2`(words: [String], said: String) async throws {
        let ended = try await Executable.pushq.run(
            ["send", Shop.queue, "--token", "00ff", "--alert", "x"] + words,
            environment: ["PUSHQ_DATABASE_URL": "postgres://127.0.0.1:1/none"])
        expectFailure(ended, code: 2, saying: said)
        let json = try await Executable.pushq.run(["send", Shop.queue, "--json"] + words)
        #expect(json.code == 2 && json.errors.contains(#""command":"pushq send""#), "\(json.errors)")
    }

    @Test func `is said of a broadcast's priority before its payload is read`() async throws {
        let ended = try await Executable.pushq.run(
            ["broadcast", Shop.queue, "--channel", "YQ==", "--payload", "/none.json", "--priority", "7"])
        expectFailure(
            ended, code: 2, saying: "--priority 7 is unknown: use 10, 5 or 1", "Try: pushq broadcast --help")
    }

    /// Fewer runs than asked for would look like all that there are.
    @Test func `is a number of runs that no schedule shows`() async throws {
        let ended = try await Executable.pushq.run(
            ["schedule", "show", Shop.queue, "weekly", "--runs", "101"],
            environment: ["PUSHQ_DATABASE_URL": "postgres://127.0.0.1:1/none"])
        expectFailure(ended, code: 2, saying: "--runs 101 is more than 100", "Try: pushq schedule show --help")
    }

    /// The dashboard started, and refused each request for the host that it was to be served for.
    @Test(arguments: ["push.example.com:8443", "https://push.example.com", "push.example.com/", "[::1]:9465", "::1"])
    func `is a host of the dashboard that no browser names like this`(host: String) async throws {
        let ended = try await Executable.admin.run(
            ["dashboard", "--allow-host", host], environment: ["PUSHQ_DATABASE_URL": "postgres://127.0.0.1:1/none"])
        expectFailure(
            ended, code: 2, saying: "--allow-host \(host): give the name alone, without https:// and port",
            "Try: pushq-admin dashboard --help")
    }
}

/// A shell's `>&-` or a careless parent may start a program like this. The next opened file gets the closed descriptor.
@Suite(.timeLimit(.minutes(10))) struct `A program without its standard streams` {
    private static func bash(_ script: String, in shop: Shop) async throws -> Executable.Ended {
        try await Executable(path: "/bin/bash").run(["-c", script], environment: shop.environment)
    }

    @Test func `fails if it cannot write its output, and writes it nowhere else`() async throws {
        try await Shop.open { shop in
            let admin = "'\(Executable.folder)/pushq-admin'"
            expectFailure(
                try await Self.bash("\(admin) queue list >&-", in: shop), code: 1,
                saying: "cannot write the output: Bad file descriptor")
            expectFailure(
                try await Self.bash("\(admin) device import \(Shop.queue) - <&-", in: shop), code: 1,
                saying: "cannot read standard input: it is closed: pipe something into it, or name a file")
            let pushq = "'\(Executable.folder)/pushq' send \(Shop.queue)"
            for words in ["--alert x --tokens -", "--token 00ff --payload -"] {
                expectFailure(
                    try await Self.bash("\(pushq) \(words) <&-", in: shop), code: 1,
                    saying: "cannot read standard input: it is closed")
            }
            let silent = try await Self.bash("\(admin) queue list <&- 2>&- | cat", in: shop)
            #expect(silent.output.contains("com.acme.shop"))
        }
    }

    @Test func `opens nothing in their place`() async throws {
        try await Shop.open { shop in
            let files = try await Self.bash(
                """
                '\(Executable.folder)/pushq' simulate --port 0 --folder '\(shop.folder.path("apns"))' <&- >/dev/null 2>&- &
                for try in {1..300}; do
                  case "$(readlink /proc/$!/exe)" in */pushq) [ -L /proc/$!/fd/2 ] && break ;; esac
                  sleep 0.1
                done
                readlink /proc/$!/fd/0 /proc/$!/fd/2
                kill $!
                """, in: shop)
            #expect(files.output == "/dev/null\n/dev/null\n", "\(files.errors)")
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `What is typed wrong, or twice` {
    @Test func `never shows a command that would do something`() async throws {
        try await Shop.open { shop in
            for words in [
                ["app", "remove"], ["queue", "pause"], ["device", "forget", Shop.queue], ["send", "cancel"],
            ] {
                let ended = try await Executable.admin.run(words, environment: shop.environment)
                expectFailure(ended, code: 2, saying: "Try: pushq-admin \(words[0]) \(words[1]) --help")
            }
        }
    }

    @Test(arguments: [
        ("x", "is not JSON: expected a value at character 1"),
        (#"{"a": 1"#, "is not JSON: expected a comma or } at character 8"),
        ("[1]", "is not a JSON object: write one such as"), (#"{"a": "\u0000"}"#, "has an escape that is no character"),
        (String(repeating: "[", count: 100), "has objects or arrays in it"),
        (#"{"a": 1e200000}"#, "has 100007 bytes as it is stored: use at most 8192"),
    ])
    func `is what attributes are`(attributes: String, problem: String) async throws {
        try await Shop.open { shop in
            let ended = try await shop.admin("device", "register", Shop.queue, "abcd", "--attributes", attributes)
            expectFailure(ended, code: 2, saying: problem, "Try: pushq-admin device register --help")
        }
    }

    @Test func `is a time for a former secret, without a new one`() async throws {
        try await Shop.open { shop in
            let ended = try await shop.admin(
                "webhook", "set", "acme", "--url", "https://push.acme.example/", "--former-for", "2h")
            expectFailure(
                ended, code: 2, saying: "--former-for goes with --secret-file or --new-secret",
                "Try: pushq-admin webhook set --help")
        }
    }

    @Test func `is a number of requests below one`() async throws {
        for number in ["-1", "0"] {
            let ended = try await Executable.pushq.run(["simulate", "--expect", number, "--print-token"])
            expectFailure(ended, code: 2, saying: "--expect", "Try: pushq simulate --help")
        }
    }

    @Test(arguments: ["--streams", "--streams-before-token"])
    func `is a number of streams with which nothing would be answered`(option: String) async throws {
        let folder = try TemporaryFolder()
        for number in ["0", "1000001"] {
            let ended = try await Executable.pushq.run(
                ["simulate", "--port", "0", "--folder", folder.path("apns"), option, number])
            expectFailure(
                ended, code: 2, saying: "\(option) \(number) is not between 1 and 1000000",
                "Try: pushq simulate --help")
        }
    }

    @Test func `is a number of requests that no memory holds`() async throws {
        let folder = try TemporaryFolder()
        for number in ["100000001", "10000000000", "9223372036854775807"] {
            let ended = try await Executable.pushq.run(
                ["simulate", "--port", "0", "--folder", folder.path("apns"), "--expect", number])
            expectFailure(
                ended, code: 2, saying: "--expect \(number) is more than 100000000", "Try: pushq simulate --help")
        }
    }

    @Test func `changes nothing the second time, and says so`() async throws {
        try await Shop.open { shop in
            let queue = Shop.queue
            let orders: [([String], said: String)] = [
                (["tenant", "resume", "acme"], "tenant acme is not suspended"),
                (["tenant", "suspend", "acme"], "suspended acme"),
                (["tenant", "suspend", "acme"], "tenant acme is already suspended"),
                (["tenant", "resume", "acme"], "resumed acme"),
                (["queue", "resume", queue], "queue \(queue) is not paused"),
                (["queue", "pause", queue, "--reason", "lunch"], "paused \(queue)"),
                (["queue", "pause", queue, "--reason", "lunch"], "queue \(queue) is already paused: lunch"),
                (["queue", "pause", queue], "queue \(queue) is already paused: lunch; from now on: by hand"),
                (["queue", "resume", queue], "resumed \(queue)"),
                (["restore", "resume", "--all", "--send"], "no queue waits for a decision"),
            ]
            for (words, said) in orders {
                let ended = try await Executable.admin.run(words, environment: shop.environment)
                #expect(ended.code == 0 && ended.output == said + "\n", "\(words): \(ended.output)")
            }
            let again = try await shop.admin("tenant", "resume", "acme", "--json")
            #expect(again.output == #"{"tenant":"acme","suspended":false,"changed":false}"# + "\n", "\(again.output)")
        }
    }

    @Test func `is a webhook's address that workers do not connect to`() async throws {
        try await Shop.open { shop in
            for (url, host) in [
                ("https://127.0.0.1/reports", "127.0.0.1"), ("https://[::1]:8443/", "::1"),
                ("https://localhost/reports", "localhost"), ("https://10.1.2.3/", "10.1.2.3"),
            ] {
                let set = try await shop.admin("webhook", "set", "acme", "--url", url)
                #expect(set.code == 0)
                #expect(
                    set.errors == "\(host) is not an address of the internet: only workers that were "
                        + "started with --webhook-allow for its network send there\n", "\(set.errors)")
            }
            let told = try await shop.admin("webhook", "set", "acme", "--url", "https://10.1.2.3/", "--json")
            let note = try JSONSerialization.jsonObject(with: Data(told.errors.utf8)) as? [String: String]
            #expect(note?["note"]?.hasPrefix("10.1.2.3 is not an address of the internet") == true, "\(told.errors)")
            let reachable = try await shop.admin("webhook", "set", "acme", "--url", "https://push.acme.example/")
            #expect(reachable.code == 0 && reachable.errors.isEmpty, "\(reachable.errors)")
        }
    }

    @Test func `is a JSON object on standard error where results are JSON`() async throws {
        try await Shop.open { shop in
            for (words, code) in [(["queue", "pause", "no/such.app/sandbox"], 1), (["queue", "puase"], 2)] {
                let ended = try await Executable.admin.run(words + ["--json"], environment: shop.environment)
                #expect(ended.code == Int32(code))
                let object = try JSONSerialization.jsonObject(with: Data(ended.errors.utf8)) as? [String: Any]
                #expect(object?["exit"] as? Int == code)
                #expect((object?["error"] as? String)?.isEmpty == false)
                #expect(ended.output.isEmpty)
            }
        }
    }

    @Test func `is refused if it is not UTF-8 text, and not changed`() async throws {
        try await Shop.open { shop in
            let script = "'\(Executable.folder)/pushq' send \(Shop.queue) --token 00ff --alert $'Gr\\xfc\\xdfe'"
            let ended = try await Executable(path: "/bin/bash").run(["-c", script], environment: shop.environment)
            expectFailure(ended, code: 2, saying: "argument 6 is not UTF-8 text")
            let json = try await Executable(path: "/bin/bash").run([
                "-c", "'\(Executable.folder)/pushq-admin' --json tenant create $'a\\xff'",
            ])
            #expect(json.code == 2)
            let object = try JSONSerialization.jsonObject(with: Data(json.errors.utf8)) as? [String: Any]
            #expect(object?["error"] as? String == "argument 4 is not UTF-8 text", "\(json.errors)")
        }
    }

    @Test func `is said where a send has placeholders, which only campaigns fill`() async throws {
        try await Shop.open { shop in
            let note = "only campaigns fill placeholders such as {{name}}: this push shows its braces as they are\n"
            for (text, said) in [("Hi {{name}}", note), ("Hi {name}", "")] {
                let ended = try await shop.pushq("send", Shop.queue, "--token", "00ff", "--alert", text)
                #expect(ended.code == 0 && ended.errors == said, "\(ended.errors)")
            }
        }
    }

    @Test func `is said of a file that is empty, or that is in another encoding`() async throws {
        try await Shop.open { shop in
            let utf16 = "\u{FEFF}token\n00ff\n".data(using: .utf16LittleEndian)!
            try utf16.write(to: shop.folder.url("utf16.csv"))
            for (name, text, said) in [
                ("empty.csv", "", "empty.csv:1: the file is empty"),
                ("utf16.csv", nil, "utf16.csv:1: the file is UTF-16 text: save it as UTF-8"),
            ] as [(String, String?, String)] {
                if let text { try shop.folder.write(text, to: name) }
                let file = shop.folder.path(name)
                expectFailure(try await shop.admin("device", "import", Shop.queue, file), code: 1, saying: said)
                expectFailure(
                    try await shop.pushq("send", Shop.queue, "--tokens", file, "--alert", "hi"), code: 1, saying: said)
            }
        }
    }

    @Test func `is no file with a header, which a send reads as a campaign does`() async throws {
        try await Shop.open { shop in
            let file = try shop.folder.write("user_key;token\nann;00ff\nbob;00fe\n", to: "tokens.csv")
            let ended = try await shop.pushq("send", Shop.queue, "--tokens", file, "--alert", "hi")
            #expect(ended.output.contains(/recipients +2\n/), "\(ended.errors)")
        }
    }

    @Test func `is no error where it is done already`() async throws {
        try await Shop.open { shop in
            let payload = try shop.folder.write(#"{"aps":{"alert":"hi"}}"#, to: "payload.json")
            _ = try await shop.pushq(
                "campaign", Shop.queue, "--key", "k", "--payload", payload, "--audience", "all", "--at",
                "2100-01-01T00:00:00Z")
            // The campaign is already cancelled, so there is nothing to confirm.
            let orders = [
                ("pause", "paused k"), ("pause", "campaign k is already paused"), ("resume", "resumed k"),
                ("resume", "campaign k is not paused"), ("cancel --yes", "cancelled k"),
                ("cancel", "campaign k is already cancelled"),
            ]
            for (order, said) in orders {
                let words = ["campaign"] + order.split(separator: " ").map(String.init) + [Shop.queue, "k"]
                let ended = try await Executable.admin.run(words, environment: shop.environment)
                #expect(ended.code == 0, "\(ended.errors)")
                #expect(ended.output == said + "\n")
            }
            expectFailure(
                try await shop.admin("campaign", "pause", Shop.queue, "k"), code: 1,
                saying: "campaign k was cancelled, which cannot be undone")
        }
    }

    /// Does what workers do with a campaign until it is sent.
    private static let end = """
        select pushq.fan_out_step(queue_id, 2::smallint, id, 500, 1, 1000) from pushq.campaign, generate_series(1, 2);
        insert into pushq.campaign_tally (queue_id, campaign_id, part, message_id, delivered)
        select queue_id, campaign_id, 1, message_id, recipient_count from pushq.job;
        delete from pushq.job
        """

    @Test func `is no pause of a campaign that has ended, and none is noted`() async throws {
        try await Shop.open { shop in
            try await shop.run(
                """
                select pushq.register_device('\(Shop.queue)', 'ab');
                select pushq.start_campaign('\(Shop.queue)', 'k', '{"aps":{"alert":"x"}}')
                """)
            let order = { (order: String) in try await shop.admin("campaign", order, Shop.queue, "k") }
            #expect(try await order("pause").output == "paused k\n", "its jobs are not made yet")
            #expect(try await order("resume").output == "resumed k\n")
            let noted = "select count(*)::text as text from pushq.audit where object = 'campaign'"
            #expect(try await shop.texts(noted) == ["2"])
            try await shop.run(Self.end)
            #expect(try await shop.admin("campaign", "show", Shop.queue, "k").output.contains(/state +finished/))
            for word in ["pause", "resume"] {
                let ended = try await order(word)
                #expect(ended.code == 0 && ended.errors.isEmpty)
                #expect(ended.output == "campaign k has ended: there was nothing left to \(word)\n")
            }
            #expect(try await shop.texts(noted) == ["2"])
            let limited = try await shop.admin("campaign", "set", Shop.queue, "k", "--max-rate", "5")
            #expect(limited.code == 0 && limited.errors.isEmpty)
            #expect(limited.output == "campaign k has ended: there was nothing left to limit\n")
            #expect(try await shop.texts("select count(*)::text as text from pushq.rate_limit") == ["0"])
        }
    }

    @Test func `is told of a file of devices, with what was probably meant`() async throws {
        try await Shop.open { shop in
            let file = try shop.folder.write("token;user_kye\nab;1\n", to: "devices.csv")
            expectFailure(
                try await shop.admin("device", "import", Shop.queue, file), code: 1,
                saying: "devices.csv:1: the column 'user_kye' is not known", "did you mean 'user_key'?")
            let good = try shop.folder.write("token;user_key\nab;1\n", to: "devices.csv")
            #expect(try await shop.admin("device", "import", Shop.queue, good).code == 0)
            #expect(try await shop.list("device", "list", Shop.queue).first?["user_key"] as? String == "1")
        }
    }

    @Test func `stops a send, a job, and what is kept of a device`() async throws {
        try await Shop.open { shop in
            let sent = try await shop.pushq("send", Shop.queue, "--token", "abcd", "--alert", "oops", "--json")
            let object = try JSONSerialization.jsonObject(with: Data(sent.output.utf8)) as? [String: Any]
            let root = try #require(object?["send"] as? String)
            let job = try #require(try await shop.list("job", "list", Shop.queue).first?["job"] as? String)
            for words in [["send", "cancel", Shop.queue, root], ["job", "cancel", Shop.queue, job]] {
                let ended = try await Executable.admin.run(words + ["--yes"], environment: shop.environment)
                #expect(ended.code == 0, "\(ended.errors)")
                #expect(ended.output.contains(/stopped +1\n/), "\(ended.output)")
            }
            #expect(try await shop.admin("send", "show", Shop.queue, root).output.contains(/state +cancelled/))
            // A send that has ended is not cancelled, and the command says so.
            let toNobody = try await shop.texts(
                #"select pushq.send('\#(Shop.queue)', '{"aps":{"alert":"x"}}', user_key => 'nobody')::text as text"#)[0]
            let ended = try await shop.admin("send", "cancel", Shop.queue, toNobody, "--yes")
            #expect(ended.code == 0 && ended.output.contains(/stopped +0\n/), "\(ended.output)")
            #expect(
                ended.errors
                    == "warning: send \(toNobody) has ended: there is nothing left to cancel\n"
            )
            let forgotten = try await shop.admin("device", "forget", Shop.queue, "abcd", "--yes")
            #expect(forgotten.code == 0, "\(forgotten.errors)")
            #expect(try await shop.list("device", "list", Shop.queue, "--all").isEmpty)
            expectFailure(
                try await shop.admin("device", "forget", Shop.queue, "abcd"), code: 1, saying: "there is no device")
            // A user is erased with all that waits for the user, and can be erased again.
            try await shop.run(
                #"""
                select pushq.register_device('\#(Shop.queue)', 'ab0' || i, 'ann') from generate_series(1, 2) i;
                select pushq.send('\#(Shop.queue)', '{"aps":{"alert":"x"}}', user_key => 'ann',
                                  run_at => now() + interval '1 hour')
                """#)
            for counts in ["2 devices and 1 send", "0 devices and 0 sends"] {
                let ended = try await shop.admin("device", "forget", Shop.queue, "--user", "ann", "--yes")
                #expect(
                    ended.code == 0 && ended.output == "forgot user ann: \(counts)\n", "\(ended.output)\(ended.errors)")
            }
            expectFailure(
                try await shop.admin("device", "forget", Shop.queue, "abcd", "--user", "ann", "--yes"), code: 2,
                saying: "TOKEN cannot be used together with --user", "Try: pushq-admin device forget --help")
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A wrong database, file or pattern` {
    @Test func `is named, and not something to migrate`() async throws {
        try await Shop.open { shop in
            let ended = try await shop.beside().admin("stats")
            expectFailure(
                ended, code: 1, saying: "there is no pushq in database postgres at ",
                "name the right database with PUSHQ_DATABASE_URL or --database-url")
        }
    }

    /// A device without an end stands for a file of gigabytes.
    @Test(arguments: [
        ["lint", "/dev/zero"], ["send", Shop.queue, "--token", "abcd", "--payload", "/dev/zero"],
        ["campaign", Shop.queue, "--key", "k", "--payload", "/dev/zero", "--audience", "all"],
        ["work", "--databases", "/dev/zero"], ["simulate", "--rules", "/dev/zero"],
    ])
    func `is not read into memory when it has no end`(words: [String]) async throws {
        try await Shop.open { shop in
            let ended = try await Executable.pushq.run(words, environment: shop.environment)
            #expect(ended.code == 1, "\(words): \(ended.errors)")
            #expect(ended.errors.contains("cannot read /dev/zero: it has more than 1 MB"), "\(words): \(ended.errors)")
        }
    }

    @Test func `is not read from a pipe without an end, nor as a secret`() async throws {
        try await Shop.open { shop in
            let pushq = Executable.pushq.command([], output: "", errors: "").executable
            let piped = try await Executable(path: "/bin/bash").run(
                ["-c", "yes | \"$0\" lint -; echo ${PIPESTATUS[1]}", pushq], environment: shop.environment)
            #expect(
                piped.output == "1\n" && piped.errors.contains("it has more than 1 MB"),
                "\(piped.errors)")
            for file in ["--p8", "--certificate", "--pkcs12"] {
                let ended = try await shop.admin(
                    "credential", "add", "acme", "main", file, "/dev/zero", "--key-id", "ABC123DEFG", "--team-id",
                    "TEAM123456")
                expectFailure(ended, code: 1, saying: "cannot read /dev/zero: it has more than 1 MB")
            }
            var environment = shop.environment
            environment["PUSHQ_MASTER_KEY"] = nil
            environment["PUSHQ_MASTER_KEY_FILE"] = "/dev/zero"
            let key = try shop.folder.write(PrivateKey.makeP256().pem(), to: "key.p8")
            let added = try await Executable.admin.run(
                [
                    "credential", "add", "acme", "main", "--p8", key, "--key-id", "ABC123DEFG", "--team-id",
                    "TEAM123456",
                ], environment: environment)
            #expect(added.code == 1 && added.errors.contains("cannot read /dev/zero: it has more than 1 MB"))
        }
    }

    @Test(arguments: ["acme", "a/b/production,c/d/production", "acme/*/prod"])
    func `is a pattern that matches no possible queue`(pattern: String) async throws {
        let ended = try await Executable.pushq.run(["work", "--queues", pattern])
        expectFailure(ended, code: 2, saying: "--queues \(pattern) ", "Try: pushq work --help")
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A worker's log` {
    @Test func `says what was started, on which database, and that no queue matches`() async throws {
        try await Shop.open { shop in
            var environment = shop.environment
            environment["PUSHQ_DATABASE_URL"]? += " password=hush"
            let worker = try Executable.pushq.start(
                ["work", "--queues", "nosuch/*", "--name", "w1", "--log-format", "text"], environment: environment,
                output: shop.folder.path("out"), errors: shop.folder.path("log"))
            let log = try await eventually("it says that no queue matches", within: .seconds(60)) {
                shop.folder.read("log")
            } until: {
                $0.contains("no queue matches")
            }
            #expect(
                log.contains(
                    #/pushq \d+\.\d+\.\d+ started as w1, on database test_\d+ at .* as \w+, for queues nosuch/\*\n/#),
                "\(log)")
            #expect(
                log.contains("no queue matches nosuch/*: waiting for one; list queues with: pushq-admin queue list\n"))
            #expect(!log.contains("hush"))
            let shown = try await eventually("it is listed", within: .seconds(60)) {
                try await shop.list("worker", "list")
            } until: {
                !$0.isEmpty
            }
            #expect(shown.first?["queues"] as? String == "nosuch/*")
            worker.signal(SIGTERM)
            #expect(await worker.waitForExit(within: .seconds(60)) == .code(0))
        }
    }
}

@Suite(.timeLimit(.minutes(10))) struct `A campaign that is started again` {
    @Test func `with another rate keeps its own, and says with what command that changes`() async throws {
        try await Shop.open { shop in
            try await shop.run("select pushq.register_device('\(Shop.queue)', 'aa')")
            let payload = try shop.folder.write(#"{"aps":{"alert":"x"}}"#, to: "payload.json")
            let start = ["campaign", Shop.queue, "--key", "spring sale", "--payload", payload, "--audience", "all"]
            let again = "campaign spring sale was started before, with the same message: it is not started again\n"
            for (rate, remark) in [
                ("400", ""), ("24000/min", again),
                (
                    "100",
                    again
                        + "campaign spring sale was started before and keeps its rate of 400/s; change that with: pushq-admin "
                        + "campaign set \(Shop.queue) --max-rate 100 'spring sale'\n"
                ),
            ] {
                let ended = try await Executable.pushq.run(start + ["--max-rate", rate], environment: shop.environment)
                #expect(ended.code == 0)
                #expect(ended.errors == remark)
            }
        }
    }
}
