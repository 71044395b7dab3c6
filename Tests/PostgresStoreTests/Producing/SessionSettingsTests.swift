import QueueCore
import TestSupport
import Testing

@testable import PostgresStore

/// Settings that producers may have for their session, login or database. The functions must still work.
@Suite(.timeLimit(.minutes(10))) struct `Producers with settings of their own` {
    private static let name = QueueFixture.name
    private static let payload = #"'{"aps":{"alert":"x"}}'"#

    @Test func `may read backslashes in literals as escapes, as before PostgreSQL 9.1`() async throws {
        try await withEmptyDatabase { _, database in
            try await database.connect().runScript(
                "alter database \(database.name) set standard_conforming_strings = off")
            let migrating = try await database.connect()
            _ = try await Migrator(migrating).run()
            try await migrating.makeWorkerLogin()
            #expect(try await Migrator(migrating).dryRun().isUpToDate)
            let queue = try await QueueFixture(database)
            try await queue.run("select pushq.register_device('\(Self.name)', 'aa', 'ann', locale => 'de_AT')")
            for call in [
                "send(QUEUE, PAYLOAD, array['aa'], key => 'k')",
                #"send(QUEUE, E'{"aps":{"alert":"\\u00e9 \\"y\\""}}', array['aa'], collapse_id => 'u0', priority => 5)"#,
                "send_many(QUEUE, array[PAYLOAD], array['aa'], keys => array['m'])",
                "start_campaign(QUEUE, 'filter', PAYLOAD, filter => 'user = ''ann'' and registered >= ''2026-01-01''')",
                "start_campaign(QUEUE, 'local', PAYLOAD, local_time => '09:00', default_zone => 'UTC')",
                "start_campaign(QUEUE, 'quiet', PAYLOAD, quiet_hours => '22:00-08:00')",
                #"start_campaign(QUEUE, 'names', '{"aps":{"alert":"Hi {{name|you}}"}}')"#,
                "add_schedule(QUEUE, 's', '*/5 9 * * mon-fri', PAYLOAD, options => '{\"local_time\":\"10:00\"}')",
                "trace(QUEUE, token => 'aa')", "show_campaigns(QUEUE, null, 9)",
            ] {
                let call = call.replacing("QUEUE", with: "'\(Self.name)'").replacing("PAYLOAD", with: Self.payload)
                try await queue.run("select pushq.\(call)")
            }
            #expect(try await queue.number("select count(*) from pushq.campaign") == 4)
            #expect(try await queue.number("select count(*) from pushq.message where collapse_id = 'u0'") == 1)
        }
    }

    @Test func `may read intervals in another style than others, and a schedule means the same to all`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let options = #"{"send_by": "-1 day 30 hours", "expiration": "-1 day 30 hours"}"#
            for style in ["postgres", "sql_standard", "iso_8601"] {
                try await queue.run(
                    """
                    set intervalstyle = \(style);
                    select pushq.add_schedule('\(Self.name)', '\(style)', '0 9 * * *', \(Self.payload),
                                              options => '\(options)');
                    select pushq.run_schedule('\(Self.name)', '\(style)');
                    reset intervalstyle
                    """)
            }
            let hours = try await queue.texts(
                "select round(extract(epoch from send_by - created_at) / 3600)::text from pushq.fan_out f"
                    + " join pushq.campaign c on c.queue_id = f.queue_id and c.id = f.campaign_id")
            #expect(hours == ["6", "6", "6"])
        }
    }

    @Test func `may have all identifiers quoted, and the schema is still the program's`() async throws {
        try await withDatabase { _, database in
            let connection = try await database.connect()
            try await connection.runScript("set quote_all_identifiers = on")
            #expect(try await Migrator(connection).dryRun().isUpToDate)
            #expect(try await HealthCheck.schema.findings(in: connection).isEmpty)
        }
    }

    @Test func `may have all identifiers quoted, and the options of a schedule are texts and numbers as before`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let options = #"{"filter": "seen within 30 days", "urgent": true, "max_rate": 5, "send_by": "6 hours"}"#
            try await queue.run(
                """
                set quote_all_identifiers = on;
                select pushq.add_schedule('\(Self.name)', 'daily', '0 9 * * *', \(Self.payload), options => '\(options)');
                select pushq.run_schedule('\(Self.name)', 'daily')
                """)
            #expect(try await queue.texts("select filter from pushq.campaign") == ["seen within 30 days"])
        }
    }

    @Test func `are warned in characters that every encoding of a client has`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            try await queue.run(
                """
                set client_encoding = LATIN1;
                select pushq.register_device('\(Self.name)', 'aa', 'ann', time_zone => 'Europe/Nowhere');
                select pushq.send('\(Self.name)', \(Self.payload), array['aa'], key => 'k');
                select pushq.cancel('\(Self.name)', (select max(root_id) from pushq.send_key));
                select pushq.send('\(Self.name)', \(Self.payload), array['aa'], key => 'k');
                select pushq.send_many('\(Self.name)', array[\(Self.payload)], array['aa'], keys => array['k']);
                """)
            #expect(try await queue.number("select count(*) from pushq.job") == 1)
        }
    }

    /// In Turkish, the lower case of I has no dot, and the upper case of i has one.
    @Test(.enabled("PostgreSQL has ICU") { try await serverHasICU() })
    func `write ASCII words in either case where the database's language is Turkish`() async throws {
        try await withEmptyDatabase("locale_provider icu icu_locale 'tr'") { _, database in
            let migrating = try await database.connect()
            _ = try await Migrator(migrating).run()
            try await migrating.makeWorkerLogin()
            let queue = try await QueueFixture(database)
            for (token, locale) in [("aa", "IT-it"), ("bb", "ID"), ("cc", "zh-HANS-cn")] {
                try await queue.run(
                    "select pushq.register_device('\(Self.name)', '\(token)', null, locale => '\(locale)')")
            }
            #expect(
                try await queue.texts("select locale from pushq.profile order by device_id") == [
                    "it-IT", "id", "zh-Hans-CN",
                ])
            for call in [
                "start_campaign(QUEUE, '1', PAYLOAD, filter => 'TAG IN (''vip'') AND locale IS MISSING')",
                "start_campaign(QUEUE, '2', PAYLOAD, filter => 'registered WITHIN 2 DAYS')",
                "add_schedule(QUEUE, 's1', '30 9 * * FRI', PAYLOAD)", "add_schedule(QUEUE, 's2', '@DAILY', PAYLOAD)",
                #"preview_message(QUEUE, '{"default":{"aps":{"alert":"S"}},"languages":{"IT-it":{"aps":{"alert":"S"}}}}')"#,
            ] {
                let call = call.replacing("QUEUE", with: "'\(Self.name)'").replacing("PAYLOAD", with: Self.payload)
                try await queue.run("select pushq.\(call)")
            }
        }
    }

    @Test func `are refused a call that needs to see what others have committed, if their snapshot is older`()
        async throws
    {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let register = "select pushq.register_device('\(Self.name)', 'aa', 'ann', installation => 'i')"
            try await queue.run(register)
            for (level, call, problem) in [
                ("repeatable read", register, "an installation cannot be registered"),
                ("serializable", register.replacing("'aa'", with: "'bb'"), "an installation cannot be registered"),
                ("repeatable read", "select pushq.forget_device('\(Self.name)', 'aa')", "a device cannot be forgotten"),
                ("serializable", "select pushq.forget_user('\(Self.name)', 'ann')", "a user cannot be forgotten"),
                (
                    "repeatable read", "select pushq.unregister_device('\(Self.name)', 'cc')",
                    "a token that is not known cannot be unregistered"
                ),
                (
                    "serializable", "select pushq.set_badge('\(Self.name)', token => 'cc')",
                    "the badge of a token that is not known cannot be set"
                ),
            ] {
                let other = try await database.connect()
                let error = await #expect(throws: PostgresError.self) {
                    try await other.runScript("begin isolation level \(level); \(call)")
                }
                #expect(
                    error?.description.contains("\(problem) in a transaction with isolation level \(level)") == true)
            }
            try await database.connect().runScript(
                "begin isolation level repeatable read; select pushq.register_device('\(Self.name)', 'bb', 'ann'); commit"
            )
            // Calls that concern only rows in the snapshot work.
            try await database.connect().runScript(
                """
                begin isolation level repeatable read;
                select pushq.set_badge('\(Self.name)', token => 'bb');
                select pushq.register_device('\(Self.name)', 'dd');
                select pushq.unregister_device('\(Self.name)', 'dd');
                commit
                """)
            #expect(try await queue.number("select count(*) from pushq.device where active") == 2)
        }
    }
}

/// Whether the tests' server was built with ICU.
private func serverHasICU() async throws -> Bool {
    try await withEmptyDatabase { _, database in
        let icu = Statement("icu", "select exists (select from pg_collation where collname = 'tr-x-icu') as is_there")
        return try await database.connect().execute(icu).one().bool("is_there")
    }
}
