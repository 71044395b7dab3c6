import Foundation
import PostgresStore
import QueueCore
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(10))) struct `A message` {
    private static let statement = Statement(
        "message_problem", "select pushq.message_problem($1::json, $2, $3, $4, $5, $6, $7)")

    @Test
    func
        `is refused or accepted by Swift and by SQL in the same words`()
        async throws
    {
        let now = Int64(Date.now.timeIntervalSince1970)
        try await withDatabase { _, database in
            let store = try await database.connect()
            for (number, example) in MessageCase.all.enumerated() {
                let message = example.message
                let ours = MessageRules.firstError(in: message, now: now)?.text
                let theirs = try await store.execute(
                    Self.statement,
                    [
                        .text(message.payload), .text(message.pushType.rawValue),
                        .int4(message.priority.map(Int32.init)),
                        .int8(message.expiration), .text(message.collapseID), .bool(message.isForWalletPass),
                        .bool(message.isForWebsite),
                    ]
                ).one().optionalText("message_problem")
                let which = Comment("case \(number): \(message.pushType) \(message.payload.prefix(120))")
                #expect(ours == example.refusal, which)
                #expect(theirs == example.refusal, which)
            }
        }
    }

    @Test func `with an unknown push type is refused with the list of known ones`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            let names = PushType.allCases.map(\.rawValue)
            let known = names.dropLast().joined(separator: ", ") + " or " + names[names.count - 1]
            for name in ["alerts", "Alert", ""] {
                let problem = try await store.execute(
                    Self.statement,
                    [.text("{}"), .text(name), .int4(nil), .int8(nil), .text(nil), .bool(false), .bool(false)]
                ).one().optionalText("message_problem")
                #expect(problem == "push type “\(name)” is unknown: use \(known)")
            }
        }
    }

    @Test(arguments: ["{}", #"{"aps":{}}"#])
    func `is for an app unless it is said to be for a Wallet pass`(payload: String) async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            for isForWalletPass in [nil, false, true] {
                let problem = try await store.execute(
                    Self.statement,
                    [
                        .text(payload), .text("alert"), .int4(nil), .int8(nil), .text(nil), .bool(isForWalletPass),
                        .bool(false),
                    ]
                ).one().optionalText("message_problem")
                #expect((problem == nil) == (isForWalletPass == true))
            }
        }
    }

    @Test func `is for an app unless it is said to be for a website`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            for isForWebsite in [nil, false, true] {
                let problem = try await store.execute(
                    Self.statement,
                    [
                        .text(#"{"aps":{"alert":"x"}}"#), .text("alert"), .int4(nil), .int8(nil), .text(nil),
                        .bool(false), .bool(isForWebsite),
                    ]
                ).one().optionalText("message_problem")
                #expect((problem == nil) == (isForWebsite != true))
            }
        }
    }

    @Test func `is known by the same keys to Swift and to SQL`() async throws {
        try await withDatabase { _, database in
            let store = try await database.connect()
            let statement = Statement("payload_kind", "select pushq.payload_kind($1, $2, $3)")
            func compare(_ path: String, _ keys: [PayloadKey], _ type: PushType) async throws {
                for key in keys {
                    let kind = try await store.execute(
                        statement, [.text(path), .text(key.name), .text(type.rawValue)]
                    ).one().optionalText("payload_kind")
                    #expect(kind == key.kind.rawValue, "\(path).\(key.name)")
                }
            }
            try await compare("aps", PayloadKeys.aps, .alert)
            try await compare("aps.alert", PayloadKeys.alert, .alert)
            try await compare("aps.alert", PayloadKeys.liveActivityAlert, .liveactivity)
            try await compare("aps.sound", PayloadKeys.sound, .alert)
        }
    }
}
