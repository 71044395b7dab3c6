import Foundation
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A list of a campaign's recipients` {
    /// A campaign that three devices have got, have perhaps got, and have not got. The first one has a newer token now.
    private static let campaign = """
        select pushq.register_device('\(Shop.queue)', 'a1', 'ann', installation => 'i1');
        select pushq.register_device('\(Shop.queue)', 'a2', 'bob');
        select pushq.register_device('\(Shop.queue)', 'a3', 'eve');
        select pushq.start_campaign('\(Shop.queue)', 'sale', '{"aps":{"alert":"Everything is fre"}}');
        -- The second step creates the job that is not full, and the last one finds nothing.
        select pushq.fan_out_step(queue_id, \(Lane.bulk.rawValue), id, 500, 1, 1000)
        from pushq.campaign, generate_series(1, 3);
        insert into pushq.campaign_tally (queue_id, campaign_id, part, message_id, delivered, unknown, rejected)
        select queue_id, campaign_id, 1, message_id, 1, 1, 1 from pushq.job;
        insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at,
                                  outcomes, delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried)
        select body_day, queue_id, id, root_id, body_day, message_id, lane, 1, now(), decode('010541', 'hex'),
               1, 1, 0, 0, 0, 0, 1, 0
        from pushq.job;
        delete from pushq.job;
        select pushq.register_device('\(Shop.queue)', 'a4', 'ann', installation => 'i1')
        """

    /// A campaign with a variant, which 40 devices have got.
    private static let variants = """
        select pushq.register_device('\(Shop.queue)', lpad(i::text, 4, '0')) from generate_series(1, 40) i;
        select pushq.start_campaign('\(Shop.queue)', 'sale', '{"aps":{"alert":"It is not free"}}',
          variants => '[{"name":"b","share":0.5,"payload":{"aps":{"alert":"Everything is fre"}}}]');
        select pushq.fan_out_step(queue_id, \(Lane.bulk.rawValue), id, 500, 1, 1000)
        from pushq.campaign, generate_series(1, 3);
        insert into pushq.campaign_tally (queue_id, campaign_id, part, message_id, delivered)
        select queue_id, campaign_id, id, message_id, recipient_count from pushq.job;
        insert into pushq.result (day, queue_id, job_id, root_id, body_day, message_id, lane, attempt, ended_at,
                                  outcomes, delivered, rejected, failed, suppressed, expired, cancelled, unknown,
                                  retried)
        select body_day, queue_id, id, root_id, body_day, message_id, lane, 1, now(),
               decode(repeat('01', recipient_count), 'hex'), recipient_count, 0, 0, 0, 0, 0, 0, 0
        from pushq.job;
        delete from pushq.job
        """

    private func recipients(_ shop: Shop, _ options: String...) async throws -> Executable.Ended {
        try await Executable.admin.run(
            ["campaign", "recipients", Shop.queue, "sale"] + options, environment: shop.environment)
    }

    private func lines(_ ended: Executable.Ended) -> [String] {
        ended.output.split(separator: "\n").map(String.init).sorted()
    }

    @Test func `has the present tokens of those that got it or may have got it, and nothing else`() async throws {
        try await Shop.open { shop in
            try await shop.run(Self.campaign)
            let ended = try await recipients(shop)
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(lines(ended) == ["a2", "a4"])
            #expect(ended.errors == "2 devices of campaign sale; outcome: delivered,unknown\n")
            let rejected = try await recipients(shop, "--outcome", "rejected")
            #expect(rejected.output == "a3\n")
            let none = try await recipients(shop, "--outcome", "failed,expired")
            #expect(none.code == 0 && none.output.isEmpty)
            #expect(none.errors.contains("0 devices of campaign sale; outcome: failed,expired"))
        }
    }

    @Test func `is read by a campaign that reaches exactly those, as text and as JSON`() async throws {
        try await Shop.open { shop in
            try await shop.run(Self.campaign)
            let payload = try shop.folder.write(#"{"aps":{"alert":"It is not free"}}"#, to: "payload.json")
            for (key, options) in [("text", []), ("json", ["--json"])] as [(String, [String])] {
                let list = try await Executable.admin.run(
                    ["campaign", "recipients", Shop.queue, "sale"] + options, environment: shop.environment)
                let ended = try await shop.pushq(
                    "campaign", Shop.queue, "--key", key, "--payload", payload, "--tokens", "-", input: list.output)
                #expect(ended.code == 0, "\(ended.errors)")
                let members = try await shop.texts(
                    """
                    select encode(d.token, 'hex') as text
                    from pushq.campaign c
                    join pushq.list l on l.queue_id = c.queue_id and l.campaign_id = c.id
                    join pushq.list_member m on m.queue_id = l.queue_id and m.list_id = l.id
                    join pushq.device d on d.queue_id = m.queue_id and d.id = m.device_id
                    where c.key = '\(key)'
                    order by 1
                    """)
                #expect(members == ["a2", "a4"], "\(key)")
            }
        }
    }

    /// The members that docs/json.md promises.
    @Test func `has the users in its JSON`() async throws {
        try await Shop.open { shop in
            try await shop.run(Self.campaign)
            let ended = try await recipients(shop, "--json")
            #expect(
                lines(ended) == [#"{"token":"a2","user_key":"bob"}"#, #"{"token":"a4","user_key":"ann"}"#],
                "\(ended.output)")
            #expect(ended.errors.contains(#"{"note":"2 devices of campaign sale"#), "\(ended.errors)")
        }
    }

    @Test func `says whom it leaves out`() async throws {
        try await Shop.open { shop in
            try await shop.run(Self.campaign)
            let device = try await shop.admin("device", "deactivate", Shop.queue, "a2")
            #expect(device.code == 0, "\(device.errors)")
            let forgotten = try await shop.admin("device", "forget", Shop.queue, "a4", "--yes")
            #expect(forgotten.code == 0, "\(forgotten.errors)")
            try await shop.run("update pushq.fan_out set made = 7")
            let ended = try await recipients(shop)
            #expect(ended.code == 0 && ended.output.isEmpty)
            for text in [
                "0 devices of campaign sale", "left out: 1 recipient without an active token now",
                "left out: 1 recipient, forgotten since", "left out: 4 recipients without an outcome yet",
            ] {
                #expect(ended.errors.contains(text), "\(ended.errors)")
            }
        }
    }

    @Test func `says that a part of history is past retention, and fails if all of it is`() async throws {
        try await Shop.open { shop in
            try await shop.run(Self.campaign)
            // A job that has ended before this one, and whose day is gone.
            try await shop.run(
                """
                update pushq.campaign_tally set delivered = 6
                where delivered = 1;
                update pushq.fan_out set made = 8
                """)
            let partly = try await recipients(shop)
            #expect(partly.code == 0)
            #expect(lines(partly) == ["a2", "a4"])
            #expect(partly.errors.contains("not listed: 5 recipients, no longer kept"), "\(partly.errors)")
            try await shop.run("delete from pushq.body")
            expectFailure(
                try await recipients(shop), code: 1, saying: "no longer kept: 7 recipients of campaign sale")
        }
    }

    /// The campaign counts such recipients as rejected, so they must not hide that others are missing.
    @Test func `has those that were rejected after a push without an answer, beside all others`() async throws {
        try await Shop.open { shop in
            try await shop.run(Self.campaign)
            try await shop.run(
                """
                update pushq.result set losses = decode('000001', 'hex');
                update pushq.campaign_tally set delivered = 3
                where delivered = 1;
                update pushq.fan_out set made = 5
                """)
            let ended = try await recipients(shop)
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(lines(ended) == ["a2", "a3", "a4"])
            #expect(ended.errors.contains("3 devices of campaign sale"), "\(ended.errors)")
            #expect(ended.errors.contains("not listed: 2 recipients, no longer kept"), "\(ended.errors)")
        }
    }

    @Test func `is of one share, for a correction to those that got the wrong variant`() async throws {
        try await Shop.open { shop in
            try await shop.run(Self.variants)
            func devices(inShare place: Int) async throws -> [String] {
                try await shop.texts(
                    """
                    select encode(d.token, 'hex') as text
                    from pushq.fan_out f
                    cross join lateral pushq.shares_of(f.shares, array(select id from pushq.device)) s
                    join pushq.device d on d.id = s.device_id
                    where s.share = \(place)
                    order by 1
                    """)
            }
            // What is missing of the other share is not missing of this one.
            try await shop.run(
                """
                update pushq.campaign_tally t
                set delivered = t.delivered + 2
                from pushq.campaign_share s
                where s.name = 'payload' and s.message_id = t.message_id
                  and t.part = (select max(part) from pushq.campaign_tally where message_id = t.message_id);
                update pushq.campaign_share set made = made + 2
                where name = 'payload';
                update pushq.fan_out set made = made + 2
                """)
            let wrong = try await devices(inShare: 2)
            let ended = try await recipients(shop, "--share", "b")
            #expect(ended.code == 0, "\(ended.errors)")
            #expect(lines(ended) == wrong)
            #expect(ended.errors == "\(wrong.count) devices of campaign sale; share: b; outcome: delivered,unknown\n")

            let others = try await recipients(shop, "--share", "payload")
            #expect(try await lines(others) == devices(inShare: 1))
            #expect(others.errors.contains("not listed: 2 recipients, no longer kept"), "\(others.errors)")
            let none = try await recipients(shop, "--share", "b", "--outcome", "failed")
            #expect(none.code == 0 && none.output.isEmpty, "\(none.errors)")
            for share in ["c", "holdout"] {
                expectFailure(
                    try await recipients(shop, "--share", share), code: 1,
                    saying: "the campaign has no share “\(share)” with recipients; use payload or b")
            }
        }
    }

    @Test func `is refused for outcomes that are none, and for a campaign that is not there`() async throws {
        try await Shop.open { shop in
            for outcomes in ["deliverd", "waiting", "delivered,", ""] {
                let ended = try await recipients(shop, "--outcome", outcomes)
                #expect(ended.code == 2 && ended.errors.contains("use delivered, rejected"), "\(ended.errors)")
            }
            let ended = try await recipients(shop)
            #expect(ended.code == 1 && ended.output.isEmpty)
            #expect(ended.errors.contains("there is no campaign sale"), "\(ended.errors)")
        }
    }
}
