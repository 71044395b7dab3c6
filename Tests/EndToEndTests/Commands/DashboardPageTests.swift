import Foundation
import LocalStack
import QueueCore
import TestSupport
import Testing
import Transport

/// Tests `pushq-admin dashboard` as a process, with real requests.
@Suite(.serialized, .timeLimit(.minutes(10))) struct `The page of operators` {
    /// A running dashboard and its tokens.
    private struct Page: Sendable {
        let place: ListenAddress
        let process: ChildProcess
        let readToken: String
        let changeToken: String

        /// Sends a request and returns the answer.
        func send(_ method: String, _ path: String, _ fields: [String] = [], body: String? = nil) async throws
            -> PlainClient.Answer
        {
            var head = ["\(method) \(path) HTTP/1.1", "Connection: close"]
            if !fields.contains(where: { $0.hasPrefix("Host:") }) { head.append("Host: localhost:9465") }
            if let body { head += ["Content-Type: application/json", "Content-Length: \(body.utf8.count)"] }
            let text = (head + fields).joined(separator: "\r\n") + "\r\n\r\n" + (body ?? "")
            return try PlainClient.parse(await PlainClient.exchange(text, with: place))
        }

        /// Signs in with a token, and returns the cookie.
        func cookie(_ token: String, name: String = "") async throws -> String {
            let answer = try await send(
                "POST", "/api/sign-in", ["Sec-Fetch-Site: same-origin"],
                body: #"{"token": "\#(token)", "name": "\#(name)"}"#)
            #expect(answer.status == 200, "\(answer.body)")
            let cookie = try #require(answer.fields["set-cookie"])
            #expect(cookie.hasSuffix("; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200"))
            return "Cookie: " + cookie.prefix { $0 != ";" }
        }

        /// Returns the answer for a path as JSON, with the token for reading.
        func json(_ path: String, body: String? = nil) async throws -> Any {
            let answer = try await send(
                body == nil ? "GET" : "POST", path, ["Authorization: Bearer \(readToken)"], body: body)
            #expect(answer.status == 200, "\(path): \(answer.body)")
            return try JSONSerialization.jsonObject(with: Data(answer.body.utf8))
        }

        /// Sends an order with the token for changes. Returns what was done.
        func order(_ body: String, expecting status: Int = 200) async throws -> String {
            let answer = try await send("POST", "/api/order", ["Authorization: Bearer \(changeToken)"], body: body)
            #expect(answer.status == status, "\(body): \(answer.body)")
            return answer.body
        }
    }

    private func withPage(
        _ environment: [String: String] = [:], _ body: @escaping @Sendable (Shop, Page) async throws -> Void
    ) async throws {
        try await Shop.open { shop in
            try await body(shop, try await start(shop, environment))
        }
    }

    private func start(
        _ shop: Shop, _ environment: [String: String] = [:], at listen: String = "127.0.0.1"
    ) async throws -> Page {
        let folder = shop.folder
        let name = "page-\(UInt32.random(in: 0 ... .max))"
        let process = try Executable.admin.start(
            ["dashboard", "--listen", "\(listen):0", "--json"],
            environment: shop.environment.merging(environment) { $1 }, output: folder.path(name),
            errors: folder.path("\(name)-errors"))
        try await eventually("the page is served", within: .seconds(60)) {
            folder.read(name).contains("\n") || process.exit != nil
        }
        let facts = try #require(
            JSONSerialization.jsonObject(with: Data(folder.read(name).utf8)) as? [String: String],
            "\(folder.read("\(name)-errors"))")
        let address = try #require(facts["address"]?.firstMatch(of: /^http:\/\/(127\.0\.0\.[12]):(\d+)\/$/)?.output)
        return Page(
            place: .tcp(host: String(address.1), port: try #require(UInt16(address.2))), process: process,
            readToken: try #require(facts["token_to_read"]), changeToken: try #require(facts["token_to_change"]))
    }

    @Test func `is one page with its own files, which no other page may show or add to`() async throws {
        try await withPage { _, page in
            for (path, type) in [
                ("/", "text/html"), ("/style.css", "text/css"), ("/dashboard.js", "text/javascript"),
                ("/plots.js", "text/javascript"), ("/favicon.svg", "image/svg+xml"), ("/favicon.ico", "image/svg+xml"),
            ] {
                let answer = try await page.send("GET", path)
                #expect(answer.status == 200 && answer.fields["content-type"]?.hasPrefix(type) == true)
                let policy = try #require(answer.fields["content-security-policy"])
                #expect(policy.hasPrefix("default-src 'none'; script-src 'self'; style-src 'self';"))
                #expect(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"))
                #expect(
                    answer.fields["referrer-policy"] == "no-referrer" && answer.fields["cache-control"] == "no-store")
                // The page loads nothing from other hosts, and contains no code or style.
                #expect(!answer.body.replacing("http://www.w3.org/2000/svg", with: "").contains(/https?:\/\//))
                #expect(!answer.body.contains(/\sstyle="|\son\w+="|<style|<script>|innerHTML|insertAdjacentHTML/))
            }
            #expect(try await page.send("GET", "/none").status == 404)
            let (whole, head) = (try await page.send("GET", "/"), try await page.send("HEAD", "/"))
            #expect(head.status == 200 && head.body.isEmpty)
            #expect(head.fields["content-length"] == whole.fields["content-length"])
            #expect(try await page.send("HEAD", "/api/overview").status == 401)
            let posted = try await page.send("POST", "/style.css", body: "{}")
            #expect(posted.status == 405 && posted.fields["allow"] == "GET, HEAD")
            page.process.signal(SIGTERM)
            #expect(await page.process.waitForExit(within: .seconds(60)) == .code(0))
        }
    }

    @Test(arguments: ["127.0.0.1", "0.0.0.0", "127.0.0.2"])
    func `is served under the address that is printed`(listen: String) async throws {
        try await Shop.open { shop in
            let page = try await start(shop, at: listen)
            let ended = try await Executable(path: "/usr/bin/curl").run([
                "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "http://\(page.place)/",
            ])
            #expect(ended.output == "200", "\(page.place)")
            page.process.signal(SIGTERM)
            #expect(await page.process.waitForExit(within: .seconds(60)) == .code(0))
        }
    }

    @Test func `has asked for the overview before anybody looks`() async throws {
        try await withPage { shop, _ in
            // The query for workers is the overview's last statement, so the session still shows it.
            try await eventually("the overview was asked for", within: .seconds(60)) {
                try await shop.texts(
                    """
                    select application_name as text from pg_stat_activity
                    where datname = current_database() and pid <> pg_backend_pid() and query like '%from pushq.worker w%'
                    """
                ).count == 1
            }
        }
    }

    @Test func `shows nothing without a token, and changes nothing with the one to read`() async throws {
        try await withPage { shop, page in
            for path in ["overview", "campaigns", "campaign", "failed", "credentials", "audit"] {
                let answer = try await page.send("GET", "/api/\(path)")
                #expect(answer.status == 401 && !answer.body.contains("acme"), "\(path)")
            }
            for path in ["devices", "trace", "order"] {
                #expect(try await page.send("POST", "/api/\(path)", body: "{}").status == 401, "\(path)")
            }
            let wrong = try await page.send("POST", "/api/sign-in", body: #"{"token": "\#(page.readToken)0"}"#)
            #expect(wrong.status == 401 && wrong.fields["set-cookie"] == nil)
            let cookie = try await page.cookie(page.readToken)
            let overview = try await page.send("GET", "/api/overview", [cookie, "Sec-Fetch-Site: same-origin"])
            #expect(overview.status == 200 && overview.body.contains(Shop.queue))
            let order = #"{"action": "queue-pause", "queue": "\#(Shop.queue)"}"#
            let refused = try await page.send(
                "POST", "/api/order", [cookie, "Sec-Fetch-Site: same-origin"], body: order)
            #expect(refused.status == 403 && refused.body.contains("may only read"))
            // After signing out, the cookie is not valid any more.
            _ = try await page.send("POST", "/api/sign-out", [cookie, "Sec-Fetch-Site: same-origin"], body: "{}")
            #expect(try await page.send("GET", "/api/overview", [cookie]).status == 401)
            #expect(try await shop.texts("select count(paused_at)::text as text from pushq.queue") == ["0"])
        }
    }

    @Test func `takes no order that another page sends, or that is not what it should be`() async throws {
        try await withPage { shop, page in
            let cookie = try await page.cookie(page.changeToken)
            let order = #"{"action": "queue-pause", "queue": "\#(Shop.queue)"}"#
            for (fields, status) in [
                ([cookie, "Sec-Fetch-Site: cross-site"], 403), ([cookie, "Sec-Fetch-Site: same-site"], 403),
                ([cookie, "Origin: http://evil.example.com"], 403), ([cookie], 403),
                ([cookie, "Host: evil.example.com", "Origin: http://evil.example.com"], 421),
            ] {
                #expect(try await page.send("POST", "/api/order", fields, body: order).status == status, "\(fields)")
            }
            let own = [cookie, "Origin: http://localhost:9465"]
            #expect(try await page.send("GET", "/api/order?action=queue-pause&queue=\(Shop.queue)", own).status == 404)
            #expect(try await page.send("PUT", "/api/order", own).status == 405)
            #expect(
                try await page.send("POST", "/api/order", own, body: String(repeating: " ", count: 20_000)).status
                    == 413)
            for (body, part) in [
                ("nonsense", "not a JSON object"), ("[]", "not a JSON object"), ("{}", "there is no such action"),
                (#"{"action": "queue-pause"}"#, "the queue is missing"),
                (#"{"action": "queue-pause", "queue": "a"}"#, "is not of the form tenant/app/environment"),
                (#"{"action": "job-retry", "queue": "\#(Shop.queue)", "job": "x"}"#, "the job's number is missing"),
            ] {
                let answer = try await page.send("POST", "/api/order", own, body: body)
                #expect(answer.status == 400 && answer.body.contains(part), "\(body): \(answer.body)")
            }
            let text = "POST /api/order HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\(own[0])\r\n"
            let plain = text + "Origin: http://localhost\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}"
            #expect(try PlainClient.parse(await PlainClient.exchange(plain, with: page.place)).status == 415)
            #expect(try await shop.texts("select count(paused_at)::text as text from pushq.queue") == ["0"])
        }
    }

    @Test func `pauses and resumes queues and campaigns, cancels, and the audit has for whom`() async throws {
        try await withPage { shop, page in
            try await shop.run(
                """
                select pushq.register_device('\(Shop.queue)', 'bb', 'anna');
                select pushq.start_campaign('\(Shop.queue)', 'sale', '{"aps":{"alert":"hello"}}')
                """)
            let cookie = try await page.cookie(page.changeToken, name: "Jürgen Юлия")
            let paused = try await page.send(
                "POST", "/api/order", [cookie, "Sec-Fetch-Site: same-origin"],
                body: #"{"action": "queue-pause", "queue": "\#(Shop.queue)"}"#)
            #expect(paused.status == 200 && paused.body == #"{"done":"paused \#(Shop.queue)"}"#)
            let load = try #require(
                ((try await page.json("/api/overview") as? [String: Any])?["queues"] as? [[String: Any]])?.first)
            #expect(load["state"] as? String == "paused", "what was known before is asked anew")
            #expect(try await page.order(#"{"action": "queue-resume", "queue": "\#(Shop.queue)"}"#).contains("resumed"))
            let campaign = { (action: String) in
                #"{"action": "campaign-\#(action)", "queue": "\#(Shop.queue)", "key": "sale"}"#
            }
            _ = try await page.order(campaign("pause"))
            _ = try await page.order(campaign("pause"), expecting: 409)
            let shown = try #require(
                try await page.json("/api/campaign?queue=\(Shop.queue)&key=sale") as? [String: Any])
            #expect(shown["state"] as? String == "paused")
            #expect((shown["stands_because"] as? String)?.contains("pushq-admin campaign resume") == true)
            _ = try await page.order(campaign("resume"))
            _ = try await page.order(campaign("cancel"))
            #expect(try await page.order(campaign("retry-failed"), expecting: 409).contains("was cancelled"))
            let entries = try await shop.texts(
                """
                select concat_ws(' ', application, object, action) as text from pushq.audit
                where application like '%dashboard%' order by id
                """)
            #expect(entries.first == "dashboard: Jürgen Юлия queue changed")
            #expect(entries.dropFirst().allSatisfy { $0.hasPrefix("pushq-admin dashboard ") } && entries.count == 5)
        }
    }

    @Test func `shows how campaigns end and why, devices and what became of them, and sends again to the failed`()
        async throws
    {
        try await withPage { shop, page in
            try await shop.run(
                """
                select pushq.register_device('\(Shop.queue)', 'bb', 'anna');
                select pushq.send('\(Shop.queue)', '{"aps":{"alert":"hello"}}', user_key => 'anna');
                insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                          delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
                select body_day, queue_id, id, root_id, body_day, message_id, lane, 10, now(), '\\x9d', 0, 0, 1, 0, 0, 0, 0, 0
                from pushq.job;
                delete from pushq.job
                """)
            let failed = try #require(try await page.json("/api/failed") as? [[String: Any]])
            #expect(failed.count == 1 && failed[0]["failed"] as? Int == 1)
            let who = #"{"queue": "\#(Shop.queue)", "user": "anna"}"#
            let devices = try #require(try await page.json("/api/devices", body: who) as? [[String: Any]])
            #expect(devices.map { $0["user_key"] as? String } == ["anna"])
            let steps = try #require(try await page.json("/api/trace", body: who) as? [[String: Any]])
            #expect(!steps.isEmpty)
            let job = try #require(failed[0]["job"] as? String)
            let again = #"{"action": "job-retry", "queue": "\#(Shop.queue)", "job": "\#(job)"}"#
            #expect(try await page.order(again).contains("1 failed recipient of job"))
            #expect(try await shop.texts("select count(*)::text as text from pushq.job") == ["1"])
            #expect((try await page.json("/api/failed") as? [Any])?.isEmpty == true)
            let none = try await page.send(
                "GET", "/api/campaign?queue=\(Shop.queue)&key=none", ["Authorization: Bearer \(page.readToken)"])
            #expect(none.status == 404)
        }
    }

    @Test func `narrows failed jobs, and sends again to all that fit and no others`() async throws {
        try await withPage { shop, page in
            try await shop.run(
                """
                select pushq.register_device('\(Shop.queue)', 'bb', 'anna');
                select pushq.send('\(Shop.queue)', '{"aps":{"alert":"hello"}}', user_key => 'anna') from generate_series(1, 3);
                insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at, outcomes,
                                          delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
                select body_day, queue_id, id, root_id, body_day, message_id, lane, 10,
                       now() - interval '2 hours' * (row_number() over (order by id) - 1),
                       set_byte('\\x00', 0, 128 + case when row_number() over (order by id) = 2
                                                     then \(Reason.named("NoAnswer").code)
                                                     else \(Reason.named("InternalServerError").code) end),
                       0, 0, 1, 0, 0, 0, 0, 0
                from pushq.job;
                delete from pushq.job
                """)
            func failed(_ query: String) async throws -> Int? {
                (try await page.json("/api/failed?queue=\(Shop.queue)&\(query)") as? [Any])?.count
            }
            let hour = try await shop.texts(
                #"select to_char((now() - interval '1 hour') at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as text"#
            )[0]
            #expect(try await failed("") == 3)
            #expect(try await failed("reason=InternalServerError") == 2)
            #expect(try await failed("reason=InternalServerError&until=\(hour)") == 1)
            #expect(try await failed("since=\(hour)") == 1)
            // The same times in the other format that the error message names.
            #expect(try await failed("since=2026-03-01T09:00:00Z") == 3)
            #expect(try await failed("since=2026-03-01T10:00:00%2B01:00") == 3)
            for (query, part) in [
                ("reason=Nonsense", "not a reason of APNs"), ("since=yesterday", "not a time such as"),
                ("since=2026-03-01%2009:00:00", "not a time such as 2026-03-01T09:00:00Z or"),
                ("since=2026-02-30T09:00:00Z", "does not exist"),
            ] {
                let answer = try await page.send(
                    "GET", "/api/failed?\(query)", ["Authorization: Bearer \(page.readToken)"])
                #expect(answer.status == 400 && answer.body.contains(part), "\(answer.body)")
            }
            let unknown = try await page.send(
                "GET", "/api/failed?queue=\(Shop.queue)&campaign=none", ["Authorization: Bearer \(page.readToken)"])
            #expect(unknown.status == 409 && unknown.body.contains("there is no campaign “none”"), "\(unknown.body)")

            let order = { (filter: String) in #"{"action": "jobs-retry", "queue": "\#(Shop.queue)"\#(filter)}"# }
            #expect(try await page.order(order(""), expecting: 400).contains("by campaign, reason or time"))
            #expect(try await shop.texts("select count(*)::text as text from pushq.job") == ["0"])
            let narrow = order(#", "reason": "InternalServerError", "until": "\#(hour)""#)
            #expect(try await page.order(narrow).contains("1 failed recipient of 1 job will be sent to again"))
            #expect(try await page.order(narrow).contains("0 failed recipients of 0 jobs"), "each once")
            try await shop.run("update pushq.message set expiration = 1000")
            let refused = try await page.order(order(#", "reason": "NoAnswer""#))
            #expect(refused.contains("1 job cannot be sent again, such as: the message expired at"), "\(refused)")
            #expect(try await failed("") == 2)
        }
    }

    @Test func `shows the credentials that end first, a hundred of them, and finds the others`() async throws {
        try await withPage { shop, page in
            try await shop.run(
                """
                insert into pushq.credential (tenant_id, name, kind, team_id, key_id, topics, environments, fingerprint, not_after, sealed)
                select t.id, 'c' || i, k.kind, k.id, k.id, '{}', '{production}',
                       case when k.kind = 'certificate' then '\\x01'::bytea end, case when k.kind = 'certificate' then now() + i * interval '1 day' end, '\\x01'
                from pushq.tenant t
                cross join generate_series(1, 150) i
                cross join lateral (select case when i <= 50 then 'certificate' else 'token' end as kind, case when i > 50 then 'TEAM123456' end as id) k
                """)
            let found = try #require(try await page.json("/api/credentials") as? [[String: Any]])
            #expect(found.count == 100)
            #expect(found.prefix(3).map { $0["name"] as? String } == ["c1", "c2", "c3"])
            let other = try #require(try await page.json("/api/credentials?matching=ACME/C15") as? [[String: Any]])
            #expect(other.map { $0["name"] as? String } == ["c15", "c150"])
        }
    }

    @Test func `shows a tenant's login what is its own, and lets it do what it may`() async throws {
        try await Shop.open { shop in
            let login = "page_\(UInt32.random(in: 0 ... .max))"
            try await shop.run("create role \(login) login")
            let url = try #require(shop.environment["PUSHQ_DATABASE_URL"])
                .replacing("user=\(TestServer.superuser)", with: "user=\(login)")
            let stranger = try await Executable.admin.run(
                ["dashboard", "--listen", "127.0.0.1:0"],
                environment: shop.environment.merging(["PUSHQ_DATABASE_URL": url]) { $1 })
            expectFailure(stranger, code: 1, saying: "\(login) has no rights in this database")
            for arguments in [
                ["tenant", "grant", "acme", login], ["tenant", "create", "beta"],
                ["app", "create", "beta", "com.beta"],
                ["queue", "create", "beta/com.beta/production"],
            ] {
                #expect(try await Executable.admin.run(arguments, environment: shop.environment).code == 0)
            }
            for queue in [Shop.queue, "beta/com.beta/production"] {
                try await shop.run(
                    """
                    select pushq.register_device('\(queue)', 'bb', 'anna');
                    select pushq.start_campaign('\(queue)', 'sale', '{"aps":{"alert":"hello"}}')
                    """)
            }
            let page = try await start(shop, ["PUSHQ_DATABASE_URL": url])
            for path in ["/api/overview", "/api/campaigns", "/api/failed"] {
                let text = "\(try await page.json(path))"
                #expect(!text.contains("beta"), "\(path)")
            }
            let overview = try #require(try await page.json("/api/overview") as? [String: Any])
            #expect(overview["workers"] == nil && overview["queues"] != nil)
            for path in ["/api/credentials", "/api/audit"] {
                let answer = try await page.send("GET", path, ["Authorization: Bearer \(page.readToken)"])
                #expect(answer.status == 403 && answer.body.contains(login), "\(path): \(answer.body)")
            }
            _ = try await page.order(
                #"{"action": "campaign-pause", "queue": "beta/com.beta/production", "key": "sale"}"#, expecting: 409)
            _ = try await page.order(#"{"action": "queue-pause", "queue": "\#(Shop.queue)"}"#, expecting: 403)
            _ = try await page.order(#"{"action": "campaign-pause", "queue": "\#(Shop.queue)", "key": "sale"}"#)
            let paused = try await shop.texts(
                """
                select string_agg(n.name, ' ') as text
                from pushq.campaign c
                join pushq.queue_name n on n.queue_id = c.queue_id
                where c.paused_at is not null
                """)
            #expect(paused == ["\(Shop.queue)"])
        }
    }

    /// Each job is a call. The order was cut off after 30 seconds, and went on where nobody saw it.
    @Test func `sends again in time to as many jobs as the limit of calls allows, and says that more match`()
        async throws
    {
        try await Shop.open { shop in
            let login = "page_\(UInt32.random(in: 0 ... .max))"
            try await shop.run("create role \(login) login")
            for arguments in [["tenant", "grant", "acme", login], ["tenant", "set", "acme", "--max-calls", "5"]] {
                #expect(try await Executable.admin.run(arguments, environment: shop.environment).code == 0)
            }
            try await shop.run(
                """
                select pushq.register_device('\(Shop.queue)', 'bb', 'anna');
                select pushq.send('\(Shop.queue)', '{"aps":{"alert":"hello"}}', user_key => 'anna')
                from generate_series(1, 300);
                insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at,
                                          outcomes, delivered, rejected, failed, suppressed, expired, cancelled,
                                          unknown, retried)
                select body_day, queue_id, id, root_id, body_day, message_id, lane, 10, now(), decode('9d', 'hex'),
                       0, 0, 1, 0, 0, 0, 0, 0
                from pushq.job;
                delete from pushq.job
                """)
            let url = try #require(shop.environment["PUSHQ_DATABASE_URL"])
                .replacing("user=\(TestServer.superuser)", with: "user=\(login)")
            let page = try await start(shop, ["PUSHQ_DATABASE_URL": url])
            let stopwatch = Stopwatch()
            let said = try await page.order(
                #"{"action": "jobs-retry", "queue": "\#(Shop.queue)", "since": "2020-01-01T00:00:00Z"}"#)
            #expect(stopwatch.quietTime < .seconds(30))
            #expect(said.contains("more jobs match"), "\(said)")
            let jobs = try #require(said.firstMatch(of: /of (\d+) jobs will be sent to again/)?.output.1, "\(said)")
            #expect(try await shop.texts("select count(*)::text as text from pushq.job") == [String(jobs)])
        }
    }

    @Test func `takes its tokens from files, which hold more than can be guessed`() async throws {
        try await Shop.open { shop in
            let short = try shop.folder.write("secret\n", to: "short")
            let good = try shop.folder.write(String(repeating: "0123456789", count: 3) + "\n", to: "good")
            for file in [short, good] {
                try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
            }
            expectFailure(
                try await shop.admin("dashboard", "--read-token-file", short), code: 1,
                saying: "is shorter than 20 characters; make one with: openssl rand -hex 24")
            expectFailure(
                try await shop.admin("dashboard", "--read-token-file", good, "--change-token-file", good), code: 2,
                saying: "the read token and the change token must differ")
        }
    }
}
