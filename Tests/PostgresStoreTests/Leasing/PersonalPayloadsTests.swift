import Foundation
import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

/// The texts of a personal message that random devices get, compared with a simple implementation of the rules.
@Suite(.timeLimit(.minutes(10))) struct `A claim of a personal message` {
    private struct Device {
        var hasProfile = true
        var locale: String?
        var attributes: [String: Value] = [:]
    }

    private enum Value {
        case text(String)
        case number(String)
        case flag(Bool)

        var shown: String {
            switch self {
            case .text(let text): text
            case .number(let written): written
            case .flag(let flag): "\(flag)"
            }
        }

        var json: String {
            switch self {
            case .text(let text): String(decoding: try! JSONEncoder().encode(text), as: UTF8.self)
            case .number(let written): written
            case .flag(let flag): "\(flag)"
            }
        }
    }

    private static let languages = ["de", "de-AT", "pt-BR", "zh-Hant", "en"]

    /// The text of a language. Each language has different placeholders.
    private static func text(_ language: String?) -> String {
        "\(language ?? "default"): {{name\(language == "en" ? "" : "|nobody")}}, {{\(language == "pt-BR" ? #"last\u0020order"# : "last order")|-}} {{\(language == "de" ? "plan" : "name|x")}}"
    }

    private static let message =
        #"{"default":{"aps":{"alert":"\#(text(nil))"}},"languages":{"#
        + languages.map { #""\#($0)":{"aps":{"alert":"\#(text($0))"}}"# }.joined(separator: ",") + "}}"

    private static func make(_ random: inout SeededGenerator) -> Device {
        func pick<Choice>(_ choices: [Choice]) -> Choice { choices.randomElement(using: &random)! }
        var device = Device()
        device.hasProfile = Int.random(in: 0..<10, using: &random) > 0
        device.locale = pick([
            nil, "de", "de-AT", "de-AT-1996", "de-Latn-AT-1996", "de-CH", "pt", "pt-BR", "pt-PT", "zh-Hant-TW",
            "zh-Hans-CN", "en-GB", "fr", "d", "pt-BR-u-CA-gregory", "zh-Hant-TW-u-NU-hanidec",
            "de-AT-u-CO-phonebk-rg-chzzzz",
        ])
        device.attributes["name"] = pick([
            nil, .text(""), .text("Ann"), .text("O'Neil \"X\" \\ \n\t\u{1}"), .text("😀 שלום"), .text("{{plan}}"),
            .number("7"), .flag(true),
        ])
        device.attributes["last order"] = pick([nil, .text("2026-10-01"), .number("-1.50"), .flag(false)])
        device.attributes["plan"] = pick([nil, .text("pro")])
        return device
    }

    /// The text that a device gets by the rules of docs/messages.md; nil if the device lacks an attribute.
    private static func expected(of device: Device) -> String? {
        var parts = (device.hasProfile ? device.locale : nil)?.split(separator: "-").map(String.init) ?? []
        var language: String?
        while !parts.isEmpty, language == nil {
            language = languages.first { $0 == parts.joined(separator: "-") }
            parts.removeLast()
        }
        func value(_ name: String) -> String? {
            let shown = device.hasProfile ? device.attributes[name]?.shown : nil
            return shown == "" ? nil : shown
        }
        guard let name = value("name") ?? (language == "en" ? nil : "nobody") else { return nil }
        guard let last = language == "de" ? value("plan") : value("name") ?? "x" else { return nil }
        return "\(language ?? "default"): \(name), \(value("last order") ?? "-") \(last)"
    }

    private func insert(_ devices: [Device], into queue: QueueFixture) async throws {
        func quoted(_ text: String?) -> String { text.map { "'" + $0.replacing("'", with: "''") + "'" } ?? "null" }
        let profiles = devices.enumerated().filter(\.element.hasProfile).map { index, device in
            let attributes = device.attributes.map { "\"\($0)\":\($1.json)" }.joined(separator: ",")
            return "(\(index + 1), \(quoted(device.locale)), \(quoted("{\(attributes)}"))::jsonb)"
        }
        try await queue.run(
            """
            insert into pushq.profile (queue_id, device_id, locale, attributes)
            select d.queue_id, d.id, v.locale, v.attributes
            from (values \(profiles.joined(separator: ","))) v(n, locale, attributes)
            join pushq.device d on d.token = int8send(v.n)
            """)
    }

    private static func alert(of payload: [UInt8]) throws -> String? {
        let object = try JSONSerialization.jsonObject(with: Data(payload)) as? [String: [String: String]]
        return object?["aps"]?["alert"]
    }

    @Test func `has two braces where four stand for them, also where nothing else is put in`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 1)
            try await queue.run(
                #"""
                select pushq.start_campaign('\#(QueueFixture.name)', 'k', '{"aps":{"alert": "{{{{name}} {{{{"}}')
                """#)
            try await queue.fanOut(Int64(try await queue.number("select id from pushq.campaign")))
            let job = try #require(try await queue.claim().first)
            #expect(job.personal == nil)
            #expect(String(decoding: job.message.payload, as: UTF8.self) == #"{"aps":{"alert": "{{name}} {{"}}"#)
        }
    }

    @Test(arguments: [1, 2, 3] as [UInt64])
    func `brings each recipient's version and attributes, however far apart the recipients are`(seed: UInt64)
        async throws
    {
        try await withDatabase { _, database in
            var random = SeededGenerator(seed: seed)
            let queue = try await QueueFixture(database, devices: 700)
            let devices = (0..<700).map { _ in Self.make(&random) }
            try await insert(devices, into: queue)
            let numbers = Dictionary(
                uniqueKeysWithValues: try await queue.connection.execute(
                    Statement(
                        "numbers", "select id, get_byte(token, 6) * 256 + get_byte(token, 7) as n from pushq.device")
                ).map { ($0.int8("id"), Int($0.int4("n"))) })
            let all = try await queue.connection.execute(
                Statement("start", "select pushq.start_campaign('\(QueueFixture.name)', 'all', $1::text::json)"),
                [.text(Self.message)]
            ).one().int8("start_campaign")
            // One device in twelve is a recipient, so the jobs are sparse.
            let few = try await queue.connection.execute(
                Statement(
                    "start few",
                    """
                    select pushq.start_campaign(
                      '\(QueueFixture.name)', 'few', $1::text::json,
                      tokens => (select array_agg(encode(token, 'hex')) from pushq.device where get_byte(token, 7) % 12 = 0))
                    """),
                [.text(Self.message)]
            ).one().int8("start_campaign")
            for (campaign, recipients) in [
                (all, 700), (few, try await queue.number("select max(token_count) from pushq.list")),
            ] {
                try await queue.fanOut(campaign)
                var seen = 0
                for job in try await queue.claim(100) {
                    let personal = try #require(job.personal)
                    for (ordinal, id) in job.deviceIDs.enumerated() {
                        seen += 1
                        let device = devices[try #require(numbers[id]) - 1]
                        var payload: [UInt8] = []
                        let byteCount = personal.byteCount(of: ordinal)
                        if byteCount != nil { personal.join(for: ordinal, into: &payload) }
                        let got = byteCount == nil ? nil : try Self.alert(of: payload)
                        #expect(got == Self.expected(of: device), "seed \(seed): \(device)")
                        #expect(byteCount == nil || byteCount == payload.count)
                    }
                }
                #expect(seen == recipients)
            }
        }
    }

    @Test(arguments: [
        ("pt-BR-u-CA-gregory", "{pt-BR}", 1), ("zh-Hans-CN-u-NU-latn", "{en,zh-Hans}", 2),
        ("en-GB-u-HC-h23", "{en-GB}", 1),
        ("en-GB-u-HC-h23", "{en,en-GB}", 2), ("en-GB-u-HC-h23", "{en-US,en}", 2), ("en-GB-u-HC-h23", "{de}", 0),
        ("sl-rozaj-biske-1994", "{sl-rozaj-biske,sl}", 1), ("de-AT-1901-u-CO-phonebk", "{de-AT-1901-u,de-AT}", 2),
    ])
    func `is in the language that is left when parts are taken off the end of the locale`(
        locale: String, languages: String, version: Int
    ) async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database)
            #expect(try await queue.number("select pushq.version_for('\(locale)', '\(languages)')") == version)
        }
    }

    @Test func `in several languages without placeholders brings the payloads byte for byte`() async throws {
        try await withDatabase { _, database in
            let queue = try await QueueFixture(database, devices: 2)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, locale) select queue_id, min(id), 'de-CH' from pushq.device group by 1
                """)
            let campaign = try await queue.connection.execute(
                Statement("start", "select pushq.start_campaign('\(QueueFixture.name)', 'k', $1::text::json)"),
                [.text(#"{"languages": {"DE": {"aps" : {"alert":"\u00e9"}} }, "default":{"aps":{"alert": "x"}}}"#)]
            ).one().int8("start_campaign")
            try await queue.fanOut(campaign)
            let job = try #require(try await queue.claim().first)
            let personal = try #require(job.personal)
            let payloads = (0..<2).map { ordinal in
                var payload: [UInt8] = []
                personal.join(for: ordinal, into: &payload)
                return String(decoding: payload, as: UTF8.self)
            }
            #expect(payloads == [#"{"aps" : {"alert":"\u00e9"}}"#, #"{"aps":{"alert": "x"}}"#])
        }
    }

    /// Starts campaigns in two languages, `a` and `b`, and one without any, in jobs of two recipients. All recipients
    /// have a device in German.
    private func withTranslatedJobs(
        _ body: @escaping @Sendable (isolated LoopActor, QueueFixture) async throws -> Void
    ) async throws {
        try await withDatabase { actor, database in
            let queue = try await QueueFixture(database, devices: 12)
            try await queue.run(
                """
                insert into pushq.profile (queue_id, device_id, locale) select queue_id, id, 'de' from pushq.device;
                insert into pushq.rate_limit (tenant_id, queue_id, rate, burst) select tenant_id, id, 1, 1 from pushq.queue
                """)
            for (key, message) in [
                ("a", #"{"default":{"aps":{"alert":"x"}},"languages":{"de":{"aps":{"alert":"a in German"}}}}"#),
                ("plain", #"{"aps":{"alert":"x"}}"#),
                ("b", #"{"default":{"aps":{"alert":"x"}},"languages":{"de":{"aps":{"alert":"b in German"}}}}"#),
            ] {
                let campaign = try await queue.connection.execute(
                    Statement("start", "select pushq.start_campaign('\(QueueFixture.name)', $1, $2::text::json)"),
                    [.text(key), .text(message)]
                ).one().int8("start_campaign")
                try await queue.fanOut(campaign)
            }
            try await body(actor, queue)
        }
    }

    /// A message may have 262,144 bytes, and a claim bring hundreds of its jobs.
    @Test func `brings the languages of a message with one of its jobs`() async throws {
        try await withTranslatedJobs { _, queue in
            let rows = try await queue.worker.claimRows(
                [ClaimQuota(queueID: queue.id, lane: .bulk, jobs: 100)], workerID: 1, lease: .seconds(15),
                atMostOnceWindow: 2)
            let translated = rows.filter { $0.bool("is_translated") }
            #expect(rows.count == 18 && translated.count == 12)
            let bearers = rows.filter { !$0.isNull("translations") }
            #expect(bearers.count == 2)
            #expect(Set(bearers.map { $0.int8("message_id") }) == Set(translated.map { $0.int8("message_id") }))
        }
    }

    @Test func `is parsed once for all its jobs`() async throws {
        try await withTranslatedJobs { _, queue in
            let jobs = try await queue.claim(100)
            let personal = jobs.compactMap(\.personal)
            #expect(jobs.count == 18 && personal.count == 12)
            #expect(Set(personal.map { ObjectIdentifier($0.message) }).count == 2)
            #expect(Set(jobs.filter { $0.personal != nil }.map(\.message.id)).count == 2)
        }
    }

    @Test func `gives all jobs of a message its languages, also in separate claims and in any order of the rows`()
        async throws
    {
        try await withTranslatedJobs { _, queue in
            // An update puts the oldest job behind the others in the table.
            try await queue.run(
                "update pushq.job set losses = 1 where id in (select min(id) from pushq.job group by root_id)")
            var alerts: [String: Int] = [:]
            for count in [1, 4, 8, 100] as [Int32] {
                for job in try await queue.claim(count) {
                    for ordinal in job.deviceIDs.indices {
                        var payload = job.message.payload
                        job.personal?.join(for: ordinal, into: &payload)
                        let alert = try Self.alert(of: payload)
                        alerts[alert ?? "", default: 0] += 1
                    }
                }
            }
            #expect(alerts == ["a in German": 12, "x": 12, "b in German": 12])
        }
    }
}
