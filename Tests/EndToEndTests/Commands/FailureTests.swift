import Cryptography
import Foundation
import LocalStack
import TestSupport
import Testing

@Suite struct `A command that cannot be carried out` {
    @Test func `says where it looked for the database, without the password`() async throws {
        let url = "postgres://nobody:hush@127.0.0.1:1/none"
        for ended in [
            try await Executable.admin.run(["stats", "--database-url", url]),
            try await Executable.admin.run(["stats"], environment: ["PUSHQ_DATABASE_URL": url]),
        ] {
            expectFailure(ended, code: 1, saying: "cannot connect", "none at 127.0.0.1:1 as nobody")
            #expect(!ended.errors.contains("hush"))
        }
        let unreadable = try await Executable.admin.run(["stats", "--database-url", "postgres://me:hush@[::1/db"])
        expectFailure(unreadable, code: 1, saying: "the database's address is not valid")
        #expect(!unreadable.errors.contains("hush"))
    }

    @Test func `says where it looked for the database of a service, whose hosts are in a file`() async throws {
        let folder = try TemporaryFolder()
        try "[remote]\nhost=127.0.0.1,localhost\nport=1,2\ndbname=none\nuser=nobody\npassword=hush\n".write(
            toFile: folder.path("services"), atomically: true, encoding: .utf8)
        func stats(at url: String) async throws -> Executable.Ended {
            try await Executable.admin.run(
                ["stats", "--database-url", url], environment: ["PGSERVICEFILE": folder.path("services")])
        }
        for url in ["service=remote", "postgresql:///?service=remote"] {
            let ended = try await stats(at: url)
            expectFailure(
                ended, code: 1, saying: "cannot connect to database none at 127.0.0.1:1,localhost:2 as nobody")
            #expect(!ended.errors.contains("hush"))
        }
        expectFailure(
            try await stats(at: "service=remote port=3 user=me"), code: 1,
            saying: "database none at 127.0.0.1:3,localhost:3 as me")
        expectFailure(
            try await stats(at: "service=absent"), code: 1, saying: #"definition of service "absent" not found"#)
    }

    @Test func `warns once that nothing verifies a server on another machine, unless somebody says how`() async throws {
        let folder = try TemporaryFolder()
        try "[remote]\nhost=no.such.host.invalid\ndbname=x\nuser=x\nsslmode=require\n".write(
            toFile: folder.path("services"), atomically: true, encoding: .utf8)
        let url = "postgresql://x@no.such.host.invalid/x"
        for (url, expected) in [(url, 1), ("\(url)?sslmode=verify-full", 0), ("service=remote", 0)] {
            let ended = try await Executable.admin.run(
                ["stats", "--database-url", url], environment: ["PGSERVICEFILE": folder.path("services")])
            #expect(ended.code == 1 && ended.errors.contains("cannot connect to database x at "), "\(ended.errors)")
            let warnings = ended.errors.split(separator: "\n").filter {
                $0.hasPrefix("warning: the server's certificate is not verified: ")
                    && $0.contains("no.such.host.invalid") && $0.contains("Add sslmode=verify-full")
            }
            #expect(warnings.count == expected, "\(url): \(ended.errors)")
        }
        // The old primary is another server, also for a command that ends before it connects there.
        let diverged = try await Executable.admin.run([
            "restore", "diverged", "--old", url, "--database-url", "postgresql://x@127.0.0.1:1/x",
        ])
        let warning = "warning: the server's certificate is not verified: whoever is on the way to no.such.host.invalid"
        #expect(diverged.code == 1 && diverged.errors.components(separatedBy: warning).count == 2, "\(diverged.errors)")
        // Without a master key, a worker ends before it connects.
        let worked = try await Executable.pushq.run(["work", "--database-url", url, "--log-format", "json"])
        let lines = worked.errors.split(separator: "\n").filter { $0.contains(#""event":"server_unverified""#) }
        #expect(worked.code == 1 && lines.count == 1, "\(worked.errors)")
    }

    @Test func `says that a database has no schema yet`() async throws {
        try await withEmptyDatabase { _, database in
            let url = try await TestServer.shared().connectionString(database: database.name)
            let ended = try await Executable.admin.run(["tenant", "list"], environment: ["PUSHQ_DATABASE_URL": url])
            expectFailure(ended, code: 1, saying: "pushq-admin migrate")
        }
    }

    @Test func `names what is not there`() async throws {
        try await Shop.open { shop in
            let queue = "acme/com.acme.toys/production"
            expectFailure(
                try await shop.admin("queue", "pause", queue), code: 1, saying: "no queue “\(queue)”", "queue list")
            expectFailure(
                try await shop.admin("app", "create", "nobody", "com.x"), code: 1, saying: "no tenant nobody")
        }
    }

    @Test func `names a tenant that is not there, and the one that was probably meant, instead of an empty table`()
        async throws
    {
        try await Shop.open { shop in
            for words in [
                ["stats", "acmee"], ["queue", "list", "acmee"], ["top", "acmee", "--once"], ["app", "list", "acmee"],
                ["credential", "list", "acmee"], ["tenant", "logins", "--tenant", "acmee"],
                ["audit", "--tenant", "acmee"],
            ] {
                let ended = try await Executable.admin.run(words, environment: shop.environment)
                expectFailure(ended, code: 1, saying: "there is no tenant “acmee”; did you mean “acme”?")
            }
            #expect(try await shop.admin("tenant", "create", "gone").code == 0)
            #expect(try await shop.admin("tenant", "remove", "gone", "--yes").code == 0)
            #expect(try await shop.admin("audit", "--tenant", "gone").output.contains("removed"))
            expectFailure(try await shop.admin("stats", "gone"), code: 1, saying: "there is no tenant “gone”")
        }
    }

    @Test func `names the range of a rate`() async throws {
        try await Shop.open { shop in
            for rate in ["2000000", "1000000000", "0.00001"] {
                let range = "is not between 0.0001 and 1000000"
                expectFailure(
                    try await shop.admin("queue", "set", Shop.queue, "--rate", rate), code: 2, saying: "--rate", range)
                expectFailure(
                    try await shop.admin("tenant", "set", "acme", "--rate", rate), code: 2, saying: "--rate", range)
            }
        }
    }

    @Test(arguments: [
        (
            ["--gateway", "api.push.apple.com:2197"],
            "both environments to one of Apple's hosts; leave it out, and choose"
        ),
        (["--gateway", "API.sandbox.push.apple.com.:443"], "choose the port with --apns-port"),
        (["--apns-port", "8443"], "--apns-port 8443 is not 443 or 2197"),
        (["--apns-port", "2197", "--gateway", "127.0.0.1:1"], "--gateway has a port already"),
    ])
    func `does not let one of Apple's hosts be the gateway of both environments`(
        arguments: [String], line: String
    ) async throws {
        try await Shop.open { shop in
            let ended = try await Executable.pushq.run(["work"] + arguments, environment: shop.environment)
            expectFailure(ended, code: 2, saying: line)
        }
    }

    @Test func `never repeats the URL of a webhook, in which a password may be`() async throws {
        try await Shop.open { shop in
            let ended = try await shop.admin(
                "webhook", "set", "acme", "--url", "https://user:hush@push.acme.example/devices")
            expectFailure(ended, code: 2, saying: "--url has a user or password")
            #expect(!ended.errors.contains("hush"))
        }
    }

    @Test func `lists what has failed apart from what waits`() async throws {
        try await Shop.open { shop in
            let sent = try await shop.pushq("send", Shop.queue, "--token", "00ff", "--alert", "hello")
            #expect(sent.code == 0, "\(sent.errors)")
            let waiting = try await shop.list("job", "list", Shop.queue).count
            #expect(waiting == 1)
            let failed = try await shop.list("job", "list", Shop.queue, "--failed").count
            #expect(failed == 0)
        }
    }

    @Test func `takes no token of odd length`() async throws {
        try await Shop.open { shop in
            expectFailure(
                try await shop.pushq("send", Shop.queue, "--token", "abc", "--alert", "hi"), code: 2,
                saying: "3 hexadecimal digits", "Try: pushq send --help")
            expectFailure(
                try await shop.admin("device", "register", Shop.queue, "abc"), code: 2, saying: "3 hexadecimal digits")
            #expect(try await shop.list("device", "list", Shop.queue).isEmpty)
        }
    }

    @Test func `takes no payload that APNs would not`() async throws {
        try await Shop.open { shop in
            let long = #"{"aps":{"alert":"\#(String(repeating: "x", count: 5000))"}}"#
            let wrong = [
                (long, "the payload has 5020 bytes: push type alert takes at most 4096"),
                ("{\"aps\":\n {\"alert\": }\n}", "payload.json:2:12: the payload is not JSON"),
                ("{\"aps\":{}}", "none of alert, badge, sound"),
            ]
            for (payload, problem) in wrong {
                let file = try shop.folder.write(payload, to: "payload.json")
                expectFailure(
                    try await shop.pushq("send", Shop.queue, "--token", "abcd", "--payload", file), code: 1,
                    saying: problem)
                expectFailure(
                    try await shop.pushq(
                        "campaign", Shop.queue, "--key", "k", "--payload", file, "--audience", "all"), code: 1,
                    saying: problem)
            }
            #expect(try await shop.list("job", "list").isEmpty)
            #expect(try await shop.list("campaign", "list").isEmpty)
            #expect(try await shop.list("device", "list", Shop.queue).isEmpty)
        }
    }

    @Test func `imports nothing of a file with a broken line`() async throws {
        try await Shop.open { shop in
            let file = try shop.folder.write("token,user_key\nabcd,1\nabc,2\n", to: "devices.csv")
            expectFailure(
                try await shop.admin("device", "import", Shop.queue, file), code: 1,
                saying: "devices.csv:3: the device token has 3 hexadecimal digits")
            expectFailure(
                try await shop.admin("device", "import", Shop.queue, "-", input: "abcd\nxy\n"), code: 1,
                saying: "standard input:2:")
            expectFailure(
                try await shop.pushq(
                    "campaign", Shop.queue, "--key", "k", "--payload", "-", "--tokens", file,
                    input: #"{"aps":{"alert":"hi"}}"#), code: 1, saying: "devices.csv:3:")
            expectFailure(
                try await shop.admin("device", "import", Shop.queue, "/nowhere.csv"), code: 1,
                saying: "cannot read /nowhere.csv: there is no such file")
            #expect(try await shop.list("device", "list", Shop.queue).isEmpty)
            #expect(try await shop.list("campaign", "list").isEmpty)
        }
    }
}

@Suite struct `A credential that is not one` {
    private let authority = Result { try CertificateAuthority.make(commonName: "Tests") }

    private func certificate(topic: String?, validity: Range<Date> = CertificateAuthority.days(30)) throws
        -> TLSIdentity
    {
        try authority.get().issueClient(
            DistinguishedName(userID: topic, commonName: "Apple Push Services"),
            apns: APNsExtensions(isForProduction: true), validity: validity)
    }

    private func add(_ shop: Shop, _ arguments: String...) async throws -> Executable.Ended {
        try await Executable.admin.run(
            ["credential", "add", "acme", "main"] + arguments, environment: shop.environment)
    }

    @Test func `is refused, and nothing is stored`() async throws {
        let good = try certificate(topic: "com.acme.shop")
        let other = try certificate(topic: "com.acme.toys")
        let nameless = try certificate(topic: nil)
        let old = try certificate(
            topic: "com.acme.shop", validity: Date.now.addingTimeInterval(-7200)..<Date.now.addingTimeInterval(-3600))
        try await Shop.open { shop in
            func file(_ text: String, _ name: String) throws -> String { try shop.folder.write(text, to: name) }
            let wrong: [(name: String, text: String, problem: String)] = [
                ("garbage.pem", "no certificate", "garbage.pem: cannot read the"),
                (
                    "mixed.pem", try good.certificate.pem() + other.privateKey.pem(),
                    "does not belong to the certificate"
                ),
                ("nameless.pem", try nameless.pem(), "it names no topic"),
                ("old.pem", try old.pem(), "the certificate expired at"),
                (
                    "other.pem", try other.pem(),
                    "the certificate is for com.acme.toys (subject UID), the queue \(Shop.queue) needs com.acme.shop"
                ),
            ]
            for (name, text, problem) in wrong {
                let path = try file(text, name)
                let ended = try await add(shop, "--certificate", path, "--queue", Shop.queue)
                expectFailure(ended, code: 1, saying: problem)
            }
            let sandbox = try await add(
                shop, "--certificate", try file(good.pem(), "good.pem"), "--environment", "sandbox")
            expectFailure(
                sandbox, code: 1, saying: "the certificate is not for sandbox (extension 1.2.840.113635.100.6.3.2)")
            #expect(try await shop.list("credential", "list").isEmpty)
        }
    }

    @Test func `is refused with the file that is at fault, and the option that helps`() async throws {
        let good = try certificate(topic: "com.acme.shop")
        try await Shop.open { shop in
            func path(_ name: String) -> String { shop.folder.path(name) }
            let (open, secret) = (
                try shop.folder.write(good.certificate.pem(), to: "good.pem"),
                try shop.folder.write(good.privateKey.pem(), to: "plain.key")
            )
            let wrong = try shop.folder.write("wrong\n", to: "password")
            let openssl = Executable(path: "/usr/bin/openssl")
            for words in [
                ["pkcs8", "-topk8", "-in", secret, "-out", path("enc.key"), "-passout", "pass:geheim"],
                [
                    "pkcs12", "-export", "-in", open, "-inkey", secret, "-out", path("good.p12"), "-passout",
                    "pass:geheim",
                ],
            ] {
                let made = try await openssl.run(words)
                try #require(made.code == 0, "\(made.errors)")
            }
            let cases = [
                (
                    ["--certificate", open, "--key", path("enc.key")], 1,
                    "enc.key: the private key is encrypted; give its password with --password-file FILE"
                ),
                (
                    ["--certificate", open, "--key", path("enc.key"), "--password-file", wrong], 1,
                    "enc.key: the password does not open the private key"
                ),
                (
                    ["--pkcs12", path("good.p12")], 1,
                    "good.p12: the file has a password; give it with --password-file FILE"
                ),
                (
                    ["--certificate", open], 1,
                    "good.pem: there is no private key beside the certificate; give the file that it is in with --key FILE"
                ),
                (
                    ["--certificate", secret, "--key", open], 2,
                    "--certificate \(secret) holds no certificate, and --key \(open) does: exchange them"
                ),
            ]
            for (words, code, problem) in cases {
                let ended = try await Executable.admin.run(
                    ["credential", "add", "acme", "main"] + words, environment: shop.environment)
                expectFailure(ended, code: Int32(code), saying: problem)
            }
            #expect(try await shop.list("credential", "list").isEmpty)
            #expect(try await add(shop, "--certificate", open, "--key", secret).code == 0)
        }
    }

    @Test func `is given to no queue that it cannot serve, whether by add, set or replace`() async throws {
        let sandbox = try authority.get().issueClient(
            DistinguishedName(userID: "com.acme.shop"), apns: APNsExtensions(isForSandbox: true))
        let good = try certificate(topic: "com.acme.shop")
        try await Shop.open { shop in
            let file = try shop.folder.write(sandbox.pem(), to: "sandbox.pem")
            let problem = [
                "credential main: the certificate is for sandbox only (extension 1.2.840.113635.100.6.3.1)",
                "the queue \(Shop.queue) needs production",
            ]
            let added = try await add(shop, "--certificate", file, "--queue", Shop.queue)
            expectFailure(added, code: 1, saying: problem[0], problem[1])

            #expect(try await add(shop, "--certificate", file).code == 0)
            let set = try await shop.admin("queue", "set", Shop.queue, "--credential", "main")
            expectFailure(
                set, code: 1, saying: "credential main: the certificate is for sandbox only (environments of",
                problem[1])
            #expect(try await shop.list("queue", "list").map { $0["credential"] as? String } == [nil])

            let goodFile = try shop.folder.write(good.pem(), to: "good.pem")
            let second = ["credential", "add", "acme", "second", "--certificate", goodFile]
            #expect(try await Executable.admin.run(second, environment: shop.environment).code == 0)
            #expect(try await shop.admin("credential", "check", "acme", "second").output.contains(Shop.queue))
            let replaced = try await shop.admin("credential", "replace", "acme", "second", "--certificate", file)
            expectFailure(replaced, code: 1, saying: "credential second: the certificate is for sandbox", problem[1])
        }
    }

    @Test func `for one push type alone is used where somebody says so`() async throws {
        let voip = try certificate(topic: "com.acme.shop.voip")
        try await Shop.open { shop in
            let file = try shop.folder.write(voip.pem(), to: "voip.pem")
            let added = try await add(shop, "--certificate", file)
            #expect(
                added.output == "added main; no queue is sent with it yet, since it is not for the topic com.acme.shop "
                    + "itself; name a queue with: pushq-admin queue set \(Shop.queue) --credential main\n")
            #expect(try await shop.list("queue", "list").map { $0["credential"] as? String } == [nil])
            #expect(try await shop.admin("queue", "set", Shop.queue, "--credential", "main").code == 0)
            #expect(try await shop.list("queue", "list").map { $0["credential"] as? String } == ["main"])
        }
    }

    @Test func `warns before its end, and is found out afterwards`() async throws {
        let soon = try certificate(topic: "com.acme.shop", validity: CertificateAuthority.days(12))
        try await Shop.open { shop in
            let file = try shop.folder.write(soon.pem(), to: "soon.pem")
            #expect(try await add(shop, "--certificate", file).code == 0)
            #expect(
                try await shop.list("credential", "list").map { $0["warning"] as? String } == ["expires in 11 days"])
            #expect(try await shop.admin("credential", "check", "acme", "main").output.contains("expires in 11 days"))
        }
    }

    @Test func `is a signing key only if it is one of Apple's kind`() async throws {
        try await Shop.open { shop in
            let file = try shop.folder.write(
                "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", to: "a.p8")
            let right = try shop.folder.write(PrivateKey.makeP256().pem(), to: "right.p8")
            expectFailure(
                try await add(shop, "--p8", right, "--team-id", "TEAM123456"), code: 2, saying: "--key-id ID is missing"
            )
            expectFailure(
                try await add(shop, "--p8", right, "--team-id", "TEAM", "--key-id", "ABC123DEFG"), code: 2,
                saying: "--team-id is not ten")
            // A file that is missing or another one has no ID in its name either.
            expectFailure(
                try await add(shop, "--p8", shop.folder.path("none.p8"), "--team-id", "TEAM123456"), code: 1,
                saying: "none.p8: there is no such file")
            expectFailure(try await add(shop, "--p8", file), code: 1, saying: "a.p8: cannot read the")
            let ended = try await add(shop, "--p8", file, "--team-id", "TEAM123456", "--key-id", "ABC123DEFG")
            expectFailure(ended, code: 1, saying: "a.p8: cannot read the")
            #expect(!ended.errors.contains("AAAA"))
        }
    }

    @Test func `needs a master key to be sealed under`() async throws {
        let good = try certificate(topic: "com.acme.shop")
        try await Shop.open { shop in
            let file = try shop.folder.write(good.pem(), to: "good.pem")
            var environment = shop.environment
            environment["PUSHQ_MASTER_KEY"] = nil
            let arguments = ["credential", "add", "acme", "main", "--certificate", file]
            let without = try await Executable.admin.run(arguments, environment: environment)
            expectFailure(without, code: 1, saying: "no master key", "openssl rand -hex 32")
            environment["PUSHQ_MASTER_KEY"] = "1234"
            let short = try await Executable.admin.run(arguments, environment: environment)
            expectFailure(short, code: 1, saying: "PUSHQ_MASTER_KEY is not 32 bytes")
            #expect(try await shop.list("credential", "list").isEmpty)
        }
    }
}
