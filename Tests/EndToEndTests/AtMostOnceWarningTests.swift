import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing

/// A producer enqueues pushes that must not be sent twice, with `psql` as its client.
@Suite(.timeLimit(.minutes(5))) struct `A call that enqueues what is sent at most once` {
    private static let payload = #"{"aps":{"alert":"hello"}}"#

    /// Calls for one message, for many messages, and for a campaign.
    private static func calls(_ options: String) -> [String] {
        [
            "pushq.send('\(Shop.queue)', '\(payload)', tokens => array['aa']\(options))",
            """
            pushq.send_many('\(Shop.queue)', array['\(payload)', '\(payload)']::json[], tokens => array['aa', 'bb']\(options))
            """,
            "pushq.start_campaign('\(Shop.queue)', 'sale', '\(payload)'\(options))",
        ]
    }

    /// Returns what `psql` prints about a call, which is rolled back.
    private func said(of call: String, _ url: String) async throws -> String {
        let psql = Executable(path: "/usr/bin/env")
        let ended = try await psql.run(
            ["psql", "-qXv", "ON_ERROR_STOP=1", "-d", url, "-c", "begin; select \(call); rollback"])
        #expect(ended.code == 0, "\(call): \(ended.errors)")
        return ended.errors
    }

    @Test func `warns of that without a synchronous standby, once, and of nothing else`() async throws {
        try await Shop.open { shop in
            let url = try #require(shop.environment["PUSHQ_DATABASE_URL"])
            for call in Self.calls(", at_most_once => true") {
                let warning = try await said(of: call, url)
                let said = warning.components(separatedBy: "at_most_once does not hold after a failover").count - 1
                #expect(said == 1, "\(warning)")
                #expect(warning.hasPrefix("WARNING:"), "\(warning)")
            }
            for call in Self.calls("") { #expect(try await said(of: call, url) == "", "\(call)") }
        }
    }

    /// The command line prints the warning like its other notes, and does not change the result.
    @Test func `warns of that on the command line in one line`() async throws {
        try await Shop.open { shop in
            let payload = try shop.folder.write(Self.payload, to: "payload.json")
            let warning = """
                at_most_once does not hold after a failover or a restore, because no standby is synchronous; \
                an operator can add one: docs/operating.md, With a standby
                """
            for words in [
                ["send", Shop.queue, "--token", "aa", "--alert", "hello"],
                ["campaign", Shop.queue, "--payload", payload, "--audience", "all"],
            ] {
                func run(_ options: String...) async throws -> Executable.Ended {
                    let ended = try await Executable.pushq.run(words + options, environment: shop.environment)
                    #expect(ended.code == 0, "\(ended.errors)")
                    return ended
                }
                #expect(try await run("--key", "once").errors == "")
                #expect(try await run("--at-most-once", "--key", "text").errors == "warning: \(warning)\n")
                let ended = try await run("--at-most-once", "--key", "json", "--json")
                #expect(ended.errors == #"{"note":"warning: \#(warning)"}"# + "\n")
                let result = try JSONSerialization.jsonObject(with: Data(ended.output.utf8)) as? [String: Any]
                #expect(result?["queue"] != nil || result?["send"] != nil, "\(ended.output)")
            }
        }
    }

    @Test func `warns of nothing where a standby is synchronous`() async throws {
        let server = try await PrivatePostgres.start(reaper: Reaper())
        let url = server.connectionString()
        let environment = ["PUSHQ_DATABASE_URL": url]
        for words in [
            ["migrate"], ["tenant", "create", "acme"], ["app", "create", "acme", "com.acme.shop"],
            ["queue", "create", Shop.queue],
        ] {
            #expect(try await Executable.admin.run(words, environment: environment).code == 0)
        }
        // From now on a commit would wait for a standby, so the calls are rolled back.
        let psql = Executable(path: "/usr/bin/env")
        for sql in ["alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"] {
            #expect(try await psql.run(["psql", "-qXd", url, "-c", sql]).code == 0)
        }
        for call in Self.calls(", at_most_once => true") {
            try await eventually("\(call) warns of nothing", within: .seconds(30)) {
                try await said(of: call, url) == ""
            }
        }
        try await server.stop(.immediate)
    }
}
