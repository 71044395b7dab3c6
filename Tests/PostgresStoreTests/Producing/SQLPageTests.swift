import Foundation
import TestSupport
import Testing

@testable import PostgresStore

/// Checks that `docs/sql-api.md` has a heading for each function, with a table of its arguments below it, and that it
/// says which errors pass.
@Suite(.timeLimit(.minutes(10))) struct `The page on the SQL functions` {
    private struct Entry {
        let function: String
        var arguments: [String] = []
    }

    private func page() throws -> String {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        return try String(contentsOf: root.appending(path: "docs/sql-api.md"), encoding: .utf8)
    }

    private func entries() throws -> [Entry] {
        var entries: [Entry] = []
        for line in try page().split(separator: "\n") {
            if let match = line.wholeMatch(of: /## `pushq\.(\w+)`.*/) {
                entries.append(Entry(function: String(match.output.1)))
            } else if let match = line.firstMatch(of: /^\| `(\w+)` \| (\S+) \| (.*?) \|/), !entries.isEmpty {
                entries[entries.count - 1].arguments.append("\(match.output.1) \(match.output.2) \(match.output.3)")
            }
        }
        return entries
    }

    private static let arguments = Statement(
        "arguments",
        #"""
        select coalesce((select array_agg(
                 format('%s %s %s', a.name, case t.typname when '_text' then 'text[]' when 'anycompatible' then 'json'
                                                       when 'anycompatiblearray' then 'json[]'
                                            else format_type(t.oid, null) end,
                        case when a.n > p.pronargs - p.pronargdefaults then 'optional' else 'required' end) order by a.n)
               from unnest(p.proargnames) with ordinality a(name, n)
               join unnest(p.proargtypes::oid[]) with ordinality y(type, n) on y.n = a.n
               join pg_type t on t.oid = y.type), '{}') as arguments
        from pg_proc p
        where p.pronamespace = 'pushq'::regnamespace and p.proname = $1
        """#)

    @Test func `tells of functions that are there, with the arguments that they take`() async throws {
        let entries = try entries()
        #expect(entries.count >= 9)
        try await withDatabase { _, database in
            let store = try await database.connect()
            for entry in entries {
                let rows = try await store.execute(Self.arguments, [.text(entry.function)])
                let signatures = rows.map { row in
                    row.textArray("arguments").map {
                        $0.replacing("timestamp with time zone", with: "timestamptz")
                            .replacing("double precision", with: "float8")
                    }
                }
                let told = entry.arguments.map { argument in
                    let words = argument.split(separator: " ", maxSplits: 2).map(String.init)
                    return "\(words[0]) \(words[1]) \(words[2] == "required" ? "required" : "optional")"
                }
                #expect(signatures.contains(told), "pushq.\(entry.function) takes \(signatures)")
            }
        }
    }

    /// Asks for each class that a code can have, with the ends of the codes of which the class alone does not tell.
    @Test func `has a producer retry what pushq's own programs retry`() throws {
        let words = try page().split(whereSeparator: \.isWhitespace).joined(separator: " ")
        let advice = try #require(words.firstMatch(of: /[Rr]etry (`PQ429`.*?) Retry other codes/)?.output.1)
        let codes = Set(advice.matches(of: /`([0-9A-Z]{5})`/).map { String($0.output.1) })
        let list = try #require(advice.firstMatch(of: /classes ((?:[0-9A-Z]{2}(?:, | and )?)+)/)?.output.1)
        let classes = Set(list.matches(of: /[0-9A-Z]{2}/).map { String($0.output) })
        let characters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        var count = 0
        for first in characters {
            for second in characters {
                for end in ["000", "001", "006", "429", "514", "P01", "P03"] {
                    let code = "\(first)\(second)\(end)"
                    let error = PostgresError(ServerError(task: "send", state: SQLState(code), message: ""))
                    guard error.isTransient else { continue }
                    count += 1
                    #expect(codes.contains(code) || classes.contains(String(code.prefix(2))), "\(code)")
                }
            }
        }
        #expect(count > 20)
    }

    /// Calls of all functions that take a key or a number, with one that does not exist.
    @Test(arguments: [
        "cancel(QUEUE, 1)", "cancel_job(QUEUE, 1)", "cancel_jobs(QUEUE, '{1}')", "retry_failed(QUEUE, 1)",
        "retry_failed_campaign(QUEUE, 'gone')",
        "pause_campaign(QUEUE, 'gone')", "resume_campaign(QUEUE, 'gone')", "cancel_campaign(QUEUE, 'gone')",
        "set_campaign_rate(QUEUE, 'gone', 5)", "pause_schedule(QUEUE, 'gone')", "resume_schedule(QUEUE, 'gone')",
        "run_schedule(QUEUE, 'gone')", "add_to_list(QUEUE, 1, array['ab'])", "add_users_to_list(QUEUE, 1, array['ab'])",
        "start_campaign(QUEUE, 'k', '{\"aps\":{\"alert\":\"x\"}}', list => 1)",
        "start_campaign(QUEUE, 'k', '{\"aps\":{\"alert\":\"x\"}}', filter => 'audience gone')",
        "preview_campaign(QUEUE, 'k', filter => 'audience gone')", "trace(QUEUE, 'ab', campaign => 'gone')",
        "broadcast(QUEUE, 'dGhlaXJz', '{\"aps\":{\"timestamp\":1,\"event\":\"end\"}}', expiration => 0)",
        "send('acme/com.acme/production', '{\"aps\":{\"alert\":\"x\"}}', array['ab'])",
    ])
    func `promises PQ404 for what there is not, and the functions keep it`(call: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                do $$
                begin
                  perform pushq.\(call.replacing("QUEUE", with: "'\(QueueFixture.name)'"));
                  raise exception 'there was no error';
                exception when sqlstate 'PQ404' then null;
                end $$
                """)
        }
    }
}
