import Foundation
import LocalStack
import PostgresStore
import TestSupport
import Testing
import Transport

extension `Real processes that report` {
    @Suite struct `Whoever follows feedback` {
        /// Dead tokens end in transactions of two workers, and in some that stay open longer than later ones. A reader
        /// follows all the time. It is interrupted, and another one continues.
        @Test func `is told of each device that was deactivated, once, however it is interrupted`() async throws {
            try await withRig {
                $0.devices = 6000
                $0.rules = #"{"latency_ms": 5, "outcomes": [{"token_prefix": "00", "reason": "Unregistered"}]}"#
            } _: { rig in
                let environment = ["PUSHQ_DATABASE_URL": rig.postgres.connectionString(database: rig.database)]
                let folder = try TemporaryFolder()
                let follow = ["feedback", "tail", "\(rig.queue)", "--after", "0"]
                let tail = try Executable.admin.start(
                    follow, environment: environment, output: folder.path("tail"), errors: folder.path("errors"))
                // The tokens of this transaction belong to no device of the campaign.
                let slow = try await rig.session()
                defer { slow.close() }
                try await slow.runScript(
                    """
                    begin;
                    with d as (
                      insert into pushq.device (queue_id, token, user_key, active, inactive_since, inactive_reason)
                      select pushq.queue_id('\(rig.queue)'), int8send(i), 'slow', false, now(), 26
                      from generate_series(1, 50) i
                      returning queue_id, id)
                    insert into pushq.feedback (queue_id, device_id, reason, reported_at, verdict)
                    select queue_id, id, 26, now(), 'deactivated' from d
                    """)
                try rig.startWorker()
                try rig.startWorker()
                try await rig.startCampaign()
                try await eventually("the reader to be told of some", within: .seconds(120)) {
                    folder.read("tail").split(separator: "\n").count > 500
                }
                tail.signal(SIGINT)
                #expect(await tail.waitForExit(within: .seconds(30)) == .code(0), "\(folder.read("errors"))")
                try await rig.waitUntilFinished()
                try await slow.runScript("commit")
                try await eventually("everything to be listed", within: .seconds(60)) {
                    try await rig.number(
                        "select count(*) from pushq.feedback where verdict = 'deactivated' and cursor is null") == 0
                }

                let words = try #require(
                    folder.read("errors").firstMatch(of: /continue with: pushq-admin (feedback tail .*)\n/)?.output.1)
                let rest = try await Executable.admin.run(
                    words.replacing("tail", with: "export").split(separator: " ").map(String.init),
                    environment: environment)
                #expect(rest.code == 0, "\(rest.errors)")
                func tokens(_ text: String) -> [String] {
                    text.split(separator: "\n").dropFirst().map { line in
                        String(line.split(separator: ",", omittingEmptySubsequences: false)[6])
                    }
                }
                let told = tokens(folder.read("tail")) + tokens(rest.output)
                #expect(tokens(rest.output).count >= 50)
                #expect(told.count == 6050)
                #expect(Set(told).count == 6050, "each once")
                #expect(try await rig.number("select count(*) from pushq.device where not active") == 6050)

                // All feedback again, as JSON.
                let whole = try await Executable.admin.run(
                    ["feedback", "export", "\(rig.queue)", "--json"], environment: environment)
                let lines = whole.output.split(separator: "\n")
                #expect(lines.count == 6050)
                let first = try #require(
                    JSONSerialization.jsonObject(with: Data(lines[0].utf8)) as? [String: String])
                #expect(first["verdict"] == "deactivated" && first["reason"] == "Unregistered")
                #expect(first["campaign"] == "campaign" && first["apns_id"]?.count == 36, "\(first)")
                #expect(lines.count { $0.contains(#""user_key":"slow""#) } == 50)
            }
        }
    }
}
