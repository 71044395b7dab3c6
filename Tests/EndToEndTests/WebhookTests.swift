import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

extension `Real processes that report` {
    /// The receiver is a Python program that checks signatures with other libraries.
    @Suite struct `A tenant's webhook` {
        private static let secrets = [
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
        ]
        private static let allowed = ["--webhook-allow", "127.0.0.0/8"]

        /// Creates deactivated devices.
        private func deactivate(_ count: Int, of queue: QueueName, _ user: String, in rig: Rig) async throws {
            try await rig.run(
                """
                with d as (
                  insert into pushq.device (queue_id, token, user_key, active, inactive_since, inactive_reason)
                  select (select pushq.queue_id('\(queue)')), sha256(convert_to('\(user)' || i, 'UTF8')), '\(user)', false, now(), 26
                  from generate_series(1, \(count)) i
                  returning queue_id, id)
                insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
                select queue_id, id, 26, now(), 'deactivated' from d
                """)
        }

        private func admin(
            _ arguments: [String], trusting receiver: WebhookReceiver, _ rig: Rig
        ) async throws -> Executable.Ended {
            try await Executable.admin.run(
                arguments,
                environment: [
                    "PUSHQ_DATABASE_URL": rig.postgres.connectionString(database: rig.database),
                    "PUSHQ_MASTER_KEY": rig.masterKeys.first.hexadecimal, "SSL_CERT_FILE": receiver.authority,
                ])
        }

        /// Sets the webhook of a tenant to the receiver, with the secret of that number.
        private func set(
            _ tenant: String, to behaviour: String, secret: Int = 0, _ more: [String] = [],
            of receiver: WebhookReceiver, _ rig: Rig
        ) async throws {
            let folder = try TemporaryFolder()
            let file = try folder.write(Self.secrets[secret] + "\n", to: "secret")
            try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file)
            let arguments = ["webhook", "set", tenant, "--url", receiver.url(behaviour), "--secret-file", file] + more
            let ended = try await admin(arguments, trusting: receiver, rig)
            #expect(ended.code == 0 && !ended.output.contains("whsec"), "\(ended.errors)")
            // The test's receiver is on this machine, so the command prints a warning.
            #expect(
                ended.errors.split(separator: "\n").count == 1
                    && ended.errors.hasPrefix("localhost is not an address of"))
        }

        private func startWorker(_ rig: Rig, trusting receiver: WebhookReceiver, _ arguments: [String] = allowed) throws
            -> WorkerProcess
        {
            try rig.startWorker(environment: ["SSL_CERT_FILE": receiver.authority], arguments)
        }

        private func taken(_ receiver: WebhookReceiver) throws -> [WebhookReceiver.Record] {
            try receiver.records().filter { $0.taken == true && $0.type == "feedback" }
        }

        @Test func `gets each report once and in order, though its receiver goes away and a worker is killed`()
            async throws
        {
            try await withRig {
                $0.devices = 1000
                $0.rules = #"{"latency_ms": 5, "outcomes": [{"token_prefix": "00", "reason": "Unregistered"}]}"#
            } _: { rig in
                let receiver = try await WebhookReceiver.start(secrets: Self.secrets)
                // Feedback from before the webhook is not sent.
                try await deactivate(3, of: rig.queue, "before", in: rig)
                try await rig.run("select pushq.list_feedback(10)")
                try await set("acme", to: "take", of: receiver, rig)
                let tested = try await admin(
                    ["webhook", "test", "acme", "--json"] + Self.allowed, trusting: receiver, rig)
                let wanted = #"{"tenant":"acme","url":"\#(receiver.url("take"))","status":200}"#
                #expect(tested.code == 0 && tested.output == wanted + "\n", "\(tested.output) \(tested.errors)")
                let test = try #require(receiver.records().first)
                #expect(test.type == "test" && test.signedBy == [0] && test.tenant == "acme")

                let first = try startWorker(rig, trusting: receiver)
                let second = try startWorker(rig, trusting: receiver)
                for worker in [first, second] { try await worker.says("started") }
                try await rig.startCampaign()
                try await rig.waitUntilFinished()
                try await eventually("the campaign's reports to be taken", within: .seconds(60)) {
                    try taken(receiver).flatMap { $0.entries ?? [] }.count >= 1000
                }

                // The receiver is away, and the worker that has noticed it is killed.
                await receiver.stop()
                try await deactivate(400, of: rig.queue, "away", in: rig)
                let problem = "the webhook of acme does not accept reports, trying again: cannot connect to localhost"
                try await eventually("it to be noticed", within: .seconds(60)) {
                    [first, second].contains { $0.log.contains(problem) }
                }
                let shown = try await admin(["tenant", "show", "acme", "--json"], trusting: receiver, rig)
                #expect(shown.output.contains(#""webhook_problem":"cannot connect to localhost"#), "\(shown.output)")
                let doomed = first.log.contains(problem) ? first : second
                await doomed.kill()
                try await deactivate(300, of: rig.queue, "later", in: rig)
                try await receiver.startAgain()
                try await eventually("all reports to be taken", within: .seconds(150)) {
                    try taken(receiver).flatMap { $0.entries ?? [] }.count >= 1700
                }

                let messages = try taken(receiver)
                let entries = messages.flatMap { $0.entries ?? [] }
                let cursors = entries.compactMap { $0["cursor"].flatMap(Int64.init) }
                #expect(cursors.count == 1700 && cursors == Set(cursors).sorted(), "each once, in order")
                #expect(Set(messages.map(\.id)).count == messages.count)
                for message in messages {
                    #expect(message.signedBy == [0] && message.signatures == 1)
                    #expect(message.age ?? .infinity < 60 && message.contentType == "application/json")
                    #expect(message.tenant == "acme" && (message.entries ?? []).count <= 250)
                }
                #expect(try await rig.number("select count(*) from pushq.device where not active") == 1703)

                // The export contains the same feedback.
                let export = try await admin(
                    ["feedback", "export", "\(rig.queue)", "--json", "--after", "0"], trusting: receiver, rig)
                let lines = try export.output.split(separator: "\n").dropFirst(3).map {
                    try JSONDecoder().decode([String: String].self, from: Data($0.utf8))
                }
                #expect(lines.map { $0.merging(["queue": "\(rig.queue)"]) { $1 } } == entries)
                #expect(entries.count { $0["campaign"] == "campaign" && $0["reason"] == "Unregistered" } == 1000)
                let said = rig.workers.map(\.log).joined()
                #expect(said.contains("the webhook of acme accepts reports again"))
                #expect(!said.contains("whsec_") && !said.contains(entries[0]["token"] ?? "?"))
            }
        }

        @Test func `repeats a message whose answer was lost under its id, and changes its secret with two signatures`()
            async throws
        {
            try await withRig {
                $0.devices = 1
            } _: { rig in
                let receiver = try await WebhookReceiver.start(secrets: Self.secrets)
                _ = try startWorker(rig, trusting: receiver)
                try await set("acme", to: "vanish", of: receiver, rig)
                try await deactivate(2, of: rig.queue, "first", in: rig)
                try await eventually("two tries", within: .seconds(90)) { try receiver.records().count >= 2 }
                // More feedback comes meanwhile, and is not in the message that is repeated.
                try await deactivate(2, of: rig.queue, "more", in: rig)
                try await set("acme", to: "take", secret: 1, ["--former-for", "1h"], of: receiver, rig)
                try await eventually("all to be taken", within: .seconds(90)) {
                    try taken(receiver).flatMap { $0.entries ?? [] }.count >= 4
                }
                let tries = try receiver.records().filter { $0.path == "/vanish" }
                #expect(Set(tries.map(\.id)).count == 1)
                let messages = try taken(receiver)
                try #require(messages.map { $0.entries?.count } == [2, 2])
                #expect(messages[0].id == tries[0].id && messages[0].entries == tries[0].entries)
                #expect(messages[1].id != tries[0].id)
                #expect(messages.allSatisfy { $0.signedBy == [0, 1] && $0.signatures == 2 })

                try await set("acme", to: "take", secret: 1, ["--former-for", "0s", "--yes"], of: receiver, rig)
                try await deactivate(1, of: rig.queue, "last", in: rig)
                try await eventually("the last one", within: .seconds(60)) { try taken(receiver).count >= 3 }
                #expect(try taken(receiver)[2].signedBy == [1])
                let audit = try await rig.admin(["audit", "--tenant", "acme"])
                #expect(audit.output.contains("webhook") && !audit.output.contains("whsec"), "\(audit.output)")
            }
        }

        @Test func `is waited for by a worker that is stopped, and has not failed`() async throws {
            try await withRig {
                $0.devices = 1
            } _: { rig in
                let receiver = try await WebhookReceiver.start(secrets: Self.secrets)
                let worker = try startWorker(rig, trusting: receiver)
                try await set("acme", to: "late", of: receiver, rig)
                try await deactivate(2, of: rig.queue, "first", in: rig)
                try await eventually("a message under way", within: .seconds(60)) {
                    try receiver.records().count >= 1
                }
                #expect(await worker.drain() == .code(0))
                #expect(!worker.log.contains("does not accept reports"), "\(worker.log)")
                #expect(
                    try await rig.number(
                        "select count(*) from pushq.webhook_progress where failures = 0 and cursor = newest") == 1)
                #expect(try receiver.records().count == 1)
            }
        }

        @Test func `whose receiver is a black hole holds up neither another tenant's nor a push`() async throws {
            try await withRig {
                $0.devices = 500
                $0.hasNeighbour = true
            } _: { rig in
                let receiver = try await WebhookReceiver.start(secrets: Self.secrets)
                try await set("acme", to: "silent", of: receiver, rig)
                try await set("beta", to: "take", of: receiver, rig)
                let worker = try startWorker(rig, trusting: receiver)
                try await deactivate(10, of: rig.queue, "nobody", in: rig)
                try await eventually("it to be tried", within: .seconds(60)) {
                    try receiver.records().contains { $0.path == "/silent" }
                }
                // While the first tenant's try is still waiting.
                try await deactivate(1, of: rig.neighbour, "one", in: rig)
                try await eventually("the other's report", within: .seconds(60)) { try taken(receiver).count == 1 }
                try await rig.startCampaign()
                try await rig.waitUntilFinished()
                try await worker.says("localhost:\(receiver.port) did not answer within 15 s", within: .seconds(60))
                for round in 2...4 {
                    try await deactivate(1, of: rig.neighbour, "round \(round)", in: rig)
                    try await eventually("round \(round)", within: .seconds(60)) {
                        try taken(receiver).count == round
                    }
                }
                #expect(try taken(receiver).allSatisfy { $0.tenant == "beta" && $0.entries?.count == 1 })
                #expect(try await rig.number("select sum(delivered) from pushq.campaign_progress") == 500)
                let shown = try await admin(["webhook", "show", "acme", "--json"], trusting: receiver, rig)
                #expect(shown.output.contains("did not answer within 15 s"), "\(shown.output)")
                #expect(await worker.drain() == .code(0))
            }
        }

        @Test func `is at no internal address, and not without TLS, unless the operator has allowed it`() async throws {
            try await withRig {
                $0.devices = 1
            } _: { rig in
                let receiver = try await WebhookReceiver.start(secrets: Self.secrets)
                let plain = try await WebhookReceiver.start(secrets: Self.secrets, isSecure: false)
                let worker = try startWorker(rig, trusting: receiver, [])
                try await set("acme", to: "take", of: receiver, rig)
                try await deactivate(1, of: rig.queue, "one", in: rig)
                try await worker.says("is not an address of the internet, and the operator has not allowed its network")
                let tested = try await admin(["webhook", "test", "acme"], trusting: receiver, rig)
                #expect(
                    tested.code == 1 && tested.errors.contains("is not an address of the internet"), "\(tested.errors)")
                #expect(try receiver.records().isEmpty)

                let warned = try await rig.admin(["webhook", "set", "acme", "--url", plain.url("take")])
                #expect(warned.code == 0 && warned.errors.contains("without TLS"), "\(warned.errors)")
                _ = try startWorker(rig, trusting: receiver)
                #expect(await worker.drain() == .code(0))
                try await eventually("the report", within: .seconds(90)) { try taken(plain).count == 1 }

                let removed = try await rig.admin(["webhook", "remove", "acme", "--yes"])
                #expect(removed.code == 0, "\(removed.errors)")
                let missing = try await rig.admin(["webhook", "show", "acme"])
                #expect(missing.code == 1 && missing.errors.contains("acme has no webhook"), "\(missing.errors)")
            }
        }
    }
}
