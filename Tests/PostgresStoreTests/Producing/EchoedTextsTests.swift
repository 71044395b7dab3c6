import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(5))) struct `A refusal that repeats what a call said` {
    private static let text = #"E'a\nb\u202Ec\u0007d' || repeat('x', 10000)"#

    @Test(arguments: [
        "send('QUEUE', PAYLOAD, array['00ff'], push_type => TEXT)", "register_device('QUEUE', '00ff', kind => TEXT)",
        "register_device('QUEUE', '00ff', locale => TEXT)", "register_device('QUEUE', '00ff', time_zone => TEXT)",
        "register_device('QUEUE', '00ff', app_version => TEXT)", "start_campaign(TEXT, 'k', PAYLOAD)",
        "start_campaign('QUEUE', 'k', PAYLOAD, local_time => TEXT)",
        "start_campaign('QUEUE', 'k', PAYLOAD, local_time => '09:00', if_passed => TEXT)",
        "start_campaign('QUEUE', 'k', PAYLOAD, quiet_hours => TEXT)",
        "start_campaign('QUEUE', 'k', PAYLOAD, filter => TEXT)", "resume_campaign('QUEUE', TEXT)",
        "start_campaign('QUEUE', 'k', PAYLOAD, filter => 'audience ''' || replace(TEXT, E'\\n', '') || '''')",
        "add_schedule('QUEUE', TEXT, '@daily', PAYLOAD)", "pause_schedule('QUEUE', TEXT)",
        "add_schedule('QUEUE', 's', '@daily', PAYLOAD, after_outage => TEXT)",
        "add_schedule('QUEUE', 's', '@daily', PAYLOAD, options => jsonb_build_object(TEXT, 1))",
        "add_schedule('QUEUE', 's', '@daily', PAYLOAD, options => jsonb_build_object('max_rate', TEXT))",
        "show_campaigns('QUEUE', null, 9, in_state => TEXT)", "save_audience('QUEUE', TEXT, 'user is missing')",
    ])
    func `does so on one line, and shortly`(call: String) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let call = call.replacing("QUEUE", with: "\(QueueFixture.name)").replacing("TEXT", with: Self.text)
                .replacing("PAYLOAD", with: #"'{"aps":{"alert":"x"}}'::text"#)
            let error = await #expect(throws: PostgresError.self) { try await queue.run("select from pushq.\(call)") }
            let said = error?.description ?? ""
            #expect(said.count < 800 && said.unicodeScalars.allSatisfy { !$0.isControl }, "\(said)")
        }
    }

    /// The view of a login's queues has no rows for one that was granted no tenant.
    @Test func `says where an operator finds the names of queues`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let error = await #expect(throws: PostgresError.self) {
                try await queue.run("select pushq.queue_id('acme/wrong/production')")
            }
            #expect(
                error?.description
                    == "there is no queue “acme/wrong/production”; list them with: pushq-admin queue list")
        }
    }

    @Test func `does so for the problems that it returns, too`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            let problem = try await queue.texts(
                #"select pushq.message_problem('{"aps":{"alert":"x"}}', push_type => \#(Self.text), priority => null, expiration => null, collapse_id => null)"#
            )[0]
            #expect(problem.hasPrefix("push type “a b c dx") && problem.unicodeScalars.allSatisfy { !$0.isControl })
        }
    }
}
