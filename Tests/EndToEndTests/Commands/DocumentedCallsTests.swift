import Foundation
import LocalStack
import TestSupport
import Testing

/// A language in which `docs/sql-api.md` shows each call.
private enum Language: String, CaseIterable {
    case sql, python, php

    /// The code blocks in this language, in order.
    func blocks(of text: String) -> [String] {
        text.matches(of: #/\n```(\w+)\n(.*?)\n```/#.dotMatchesNewlines())
            .filter { $0.output.1 == rawValue }.map { String($0.output.2) }
    }

    /// The results that a block says it prints.
    func results(of block: String) -> [String] {
        block.split(separator: "\n").compactMap { line in
            line.firstMatch(of: #/(?:--|#|//) => (.*)/#).map { String($0.output.1) }
        }
    }
}

/// A result as the page shows it, for comparison with the output. Any time matches any other. A number from 1001 on
/// matches any number, because the database chooses it.
private struct DocumentedResult {
    let text: String

    /// The result as a number that later statements of the page use; nil if it is not such a number.
    var number: String? { text.wholeMatch(of: #/[1-9]\d{3}/#).map { String($0.output) } }

    func matches(_ printed: Substring) throws -> Bool {
        let pattern = NSRegularExpression.escapedPattern(for: text).replacing("…", with: ".*")
            .replacing(#/\d{4}-\d\d-\d\d(.)\d\d:\d\d:\d\d(?:\\\.\d+)?/#) {
                #"\d{4}-\d\d-\d\d\#($0.output.1)\d\d:\d\d:\d\d(\.\d+)?"#
            }
            .replacing(#/\b[1-9]\d{3}\b/#.wordBoundaryKind(.simple), with: #"\d+"#)
        return try printed.wholeMatch(of: Regex(pattern)) != nil
    }
}

extension `Real processes` {
    /// Runs the examples word for word, with a login of the tenant, a worker and a simulator.
    @Suite struct `The examples of the page on the SQL functions` {
        private static let page = URL(filePath: #filePath).appending(path: "../../../../docs/sql-api.md").standardized

        private static func text() throws -> String { try String(contentsOf: page, encoding: .utf8) }

        @Test func `show each function in psql, Python and PHP`() throws {
            let sections = try Self.text().components(separatedBy: "\n## ").filter { $0.hasPrefix("`pushq.") }
            #expect(sections.count > 40)
            for section in sections {
                let function = try #require(section.firstMatch(of: #/`(pushq\.\w+)`/#)).output.1
                for language in Language.allCases {
                    let calls = language.blocks(of: section).filter { $0.contains("\(function)(") }
                    #expect(!calls.isEmpty, "\(section.prefix { $0 != "\n" }) has no example in \(language)")
                }
            }
        }

        @Test(arguments: Language.allCases)
        private func `run in their order, and give what the page shows`(language: Language) async throws {
            try await withRig {
                $0.devices = 0
                $0.rules = #"{"outcomes": [{"token_prefix": "dead", "reason": "Unregistered"}]}"#
                $0.sql = Self.setup
            } _: { rig in
                let login = "shop_\(UInt32.random(in: 0 ... .max))"
                try await rig.run("create role \(login) login; grant all on all tables in schema public to \(login)")
                let granted = try await rig.admin(["tenant", "grant", "acme", login])
                #expect(granted.code == 0, "\(granted.errors)")
                try rig.startWorker()
                try await rig.run("call public.rest()")
                let waiting = try await rig.number("select id from pushq.job")
                let ended = try await rig.number("select job_id from pushq.result")
                let page = try Self.text()
                    .replacing("acme/com.acme.shop/production", with: "\(rig.queue)")
                    .replacing("2001", with: "\(waiting)").replacing("2002", with: "\(ended)")
                let host = "host=\(rig.postgres.socketFolder) port=5432"
                let address = "\(host) dbname=\(rig.database) user=\(login)"
                let blocks = language.blocks(of: page).map {
                    $0.replacing("host=db.example dbname=push user=shop sslmode=verify-full", with: address)
                        .replacing(
                            "host=db.example;dbname=push;user=shop;sslmode=verify-full",
                            with: address.replacing(" ", with: ";"))
                }
                switch language {
                case .sql: try await Self.runStatements(of: blocks, at: address)
                case .python: try await Self.run(blocks, in: language, as: ["/usr/bin/python3", "-"])
                case .php: try await Self.run(blocks, in: language, as: ["php"])
                }
                if language != .sql {
                    let dead = "select count(*) from public.app_token where is_dead"
                    #expect(try await rig.number("\(dead) and registered_at < now()") == 1)
                    #expect(try await rig.number(dead) == 1, "the token lives that was registered later")
                }
            }
        }

        /// Runs one statement after the other in psql. A later statement uses the numbers that earlier ones returned.
        private static func runStatements(of blocks: [String], at address: String) async throws {
            var numbers: [String: String] = [:]
            for statement in blocks.flatMap(statements) {
                let words = statement.replacing(#/\b[1-9]\d{3}\b/#) { numbers[String($0.output)] ?? String($0.output) }
                let ended = try await Executable(path: "/usr/bin/env").run(
                    [
                        "psql", "-XAtqd", address, "-F", " | ", "-v", "ON_ERROR_STOP=1", "-c", "call rest()", "-c",
                        words,
                    ],
                    environment: ["PGTZ": "UTC"])
                try #require(ended.code == 0, "\(words)\n\(ended.errors)")
                let results = Language.sql.results(of: statement)
                try expect(ended.output, toBe: results, after: statement)
                if let number = results.first.map(DocumentedResult.init)?.number {
                    numbers[number] = ended.output.trimmingCharacters(in: .whitespacesAndNewlines)
                }
            }
        }

        /// The statements of a block, each with its expected results.
        private static func statements(of block: String) -> [String] {
            block.replacing(#/;( *\n?-- => .*)*(\n|$)/#) { "\($0.output.0)\u{0}" }
                .split(separator: "\u{0}").map(String.init)
        }

        /// Runs all blocks in one session, because a later one uses what an earlier one has set.
        private static func run(_ blocks: [String], in language: Language, as program: [String]) async throws {
            var script = language == .php ? "<?php\n" : ""
            for (index, block) in blocks.enumerated() {
                if index > 0 {
                    script +=
                        language == .php
                        ? "execute($database, 'call rest()'); echo \"\\nBLOCK\\n\";\n"
                        : "connection.execute('call rest()'); print('\\nBLOCK')\n"
                }
                script += block + "\n"
            }
            let ended = try await Executable(path: "/usr/bin/env").run(
                program, environment: ["PGTZ": "UTC"], input: script, within: .seconds(120))
            #expect(ended.code == 0, "\(ended.errors)\n\(ended.output)")
            let outputs = ended.output.components(separatedBy: "\nBLOCK\n")
            #expect(outputs.count == blocks.count)
            for (block, output) in zip(blocks, outputs) {
                try expect(output, toBe: language.results(of: block), after: block)
            }
        }

        /// A block without results may print anything.
        private static func expect(_ output: String, toBe results: [String], after block: String) throws {
            let lines = output.split(separator: "\n")
            guard !results.isEmpty else { return }
            let isShown =
                try lines.count == results.count
                && zip(lines, results).allSatisfy { try DocumentedResult(text: $1).matches($0) }
            #expect(isShown, "\(block)\nprinted:\n\(output)")
        }

        /// The reader's own table, and the procedure `rest`, which waits until the worker has nothing more to do.
        private static let setup = """
            create table public.orders (id int, customer text, is_late boolean, shipped_at timestamptz);
            insert into public.orders values (815, '4711', false), (816, 'anna', true), (817, 'bert', true);
            create table public.app_token (
              token text, is_dead boolean not null default false, registered_at timestamptz not null default now());
            insert into public.app_token (token)
            values ('00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0'), (repeat('a1', 32)),
                   (repeat('b1', 32)), (repeat('dead', 16));
            -- A reader whose app registers the dead token after APNs' report.
            insert into public.app_token (token, registered_at) values (repeat('dead', 16), now() + interval '1 hour');
            create table public.push_feedback (cursor bigint);
            insert into public.push_feedback values (0);

            insert into pushq.device (queue_id, token) values ($queue, decode(repeat('dead', 16), 'hex'));
            select pushq.register_device(queue, '00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0', '4711',
                                         locale => 'de-AT', time_zone => 'Europe/Vienna', tags => '{vip}'),
                   pushq.register_device(queue, repeat('a1', 32), 'anna', locale => 'de', time_zone => 'Europe/Vienna'),
                   pushq.register_device(queue, repeat('b1', 32), 'bert', locale => 'en'),
                   pushq.register_device(queue, 'a94a8fe5ccb19ba61c4c0873d391e987', null, kind => 'voip'),
                   pushq.register_channel(queue, 'dHN0LXNyY2gtY2hubA==', 0),
                   pushq.send(queue, '{"aps":{"alert":"Now"}}', user_key => 'bert'),
                   pushq.send(queue, '{"aps":{"alert":"Tomorrow"}}', array[repeat('dead', 16)],
                              run_at => now() + interval '1 day'),
                   pushq.start_campaign(queue, 'autumn-sale', '{"aps":{"alert":"Sale"}}', start_at => now() + interval '1 day')
            from (select name as queue from pushq.queue_name) q;

            create procedure public.rest() language plpgsql security definer as $$
            begin
              for i in 1 .. 3000 loop
                if not exists (select from pushq.job where run_at <= clock_timestamp())
                   and not exists (select from pushq.lease)
                   and not exists (select from pushq.campaign_progress where not finished and key <> 'autumn-sale')
                   and not exists (select from pushq.feedback where cursor is null and verdict = 'deactivated') then
                  return;
                end if;
                perform pg_sleep(0.01);
              end loop;
              raise exception 'the worker still has something to do';
            end $$
            """
    }
}
