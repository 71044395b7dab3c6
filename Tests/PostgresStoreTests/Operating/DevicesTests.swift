import QueueCore
import TestSupport
import Testing
import Transport

@testable import PostgresStore

private let queue = QueueName(tenant: "acme", app: "com.acme.shop", environment: .production)

extension DeviceFile {
    /// A file of that text, in pieces of a few bytes.
    fileprivate static func text(_ text: String) -> DeviceFile {
        let rest = Locked(Array(text.utf8)[...])
        return DeviceFile(name: "devices.csv") {
            rest.withLock { rest in
                let piece = rest.prefix(5)
                rest = rest.dropFirst(5)
                return piece.isEmpty ? nil : Array(piece)
            }
        }
    }
}

private func withQueue(_ body: @Sendable @escaping (PostgresConnection) async throws -> Void) async throws {
    try await withDatabase { _, database in
        let store = try await database.connect()
        _ = try await store.createTenant("acme")
        _ = try await store.createApp("com.acme.shop", of: "acme")
        _ = try await store.createQueue(queue)
        try await body(store)
    }
}

@Suite struct `Devices of a queue` {
    @Test func `are registered, deactivated and brought back`() async throws {
        try await withQueue { store in
            let token = try DeviceToken(hex: "00ABcd")
            let id = try await store.registerDevice(token, userKey: "4711", inQueue: queue)
            #expect(try await store.registerDevice(token, inQueue: queue) == id)
            #expect(try await store.setDevice(token, inQueue: queue, isActive: false) == .changed)
            #expect(try await store.setDevice(token, inQueue: queue, isActive: false) == .unchanged)
            let device = try #require(try await store.device(token, inQueue: queue))
            #expect(device.userKey == "4711")
            #expect(!device.isActive)
            #expect(device.inactiveReason == nil)
            #expect(try await store.setDevice(token, inQueue: queue, isActive: true) == .changed)
            #expect(try await store.setDevice(DeviceToken(hex: "ff"), inQueue: queue, isActive: true) == .unknown)
        }
    }

    @Test func `are listed a page at a time`() async throws {
        try await withQueue { store in
            let file = DeviceFile.text((0..<25).map { "\($0 + 10)" }.joined(separator: "\n"))
            _ = try await store.importDevices(from: file, inQueue: queue, reactivates: false) { _ in }
            var seen: [String] = []
            var last: Int64 = 0
            while let end = try await store.devices(
                inQueue: queue, after: last, userKey: nil, includesInactive: false, limit: 10
            ).map({ device in
                seen.append(device.token.hex)
                return device.id
            }).last {
                last = end
            }
            #expect(seen == (0..<25).map { "\($0 + 10)" })
        }
    }
}

@Suite struct `Importing devices` {
    private func contents(_ store: PostgresConnection) async throws -> [String] {
        try await store.devices(inQueue: queue, after: 0, userKey: nil, includesInactive: true, limit: 100)
            .map { "\($0.token.hex) \($0.userKey ?? "-") \($0.isActive)" }.sorted()
    }

    @Test func `adds what is new, changes what is different and leaves the rest alone`() async throws {
        try await withQueue { store in
            let first = try await store.importDevices(
                from: .text("token,user_key\nab,1\ncd,2\nab,1\nef,\n"), inQueue: queue, reactivates: false
            ) { _ in }
            #expect(first == DeviceImportSummary(read: 4, inactive: 0, new: 3, changed: 0, keptByApp: 0))
            let second = try await store.importDevices(
                from: .text("token,user_key\nab,1\ncd,3\nef,\n01,9\n"), inQueue: queue, reactivates: false
            ) { _ in }
            #expect(second == DeviceImportSummary(read: 4, inactive: 0, new: 1, changed: 1, keptByApp: 0))
            #expect(try await contents(store) == ["01 9 true", "ab 1 true", "cd 3 true", "ef - true"])
        }
    }

    @Test func `leaves a device with the user whom its app has registered it for since`() async throws {
        try await withQueue { store in
            _ = try await store.registerDevice(DeviceToken(hex: "ab"), userKey: "alice", inQueue: queue)
            _ = try await store.registerDevice(DeviceToken(hex: "ab"), userKey: "bob", inQueue: queue)
            _ = try await store.registerDevice(DeviceToken(hex: "ef"), userKey: nil, inQueue: queue)
            let summary = try await store.importDevices(
                from: .text("token,user_key\nab,alice\ncd,alice\nef,alice\n"), inQueue: queue, reactivates: true
            ) { _ in }
            #expect(try await contents(store) == ["ab bob true", "cd alice true", "ef - true"])
            #expect(summary.keptByApp == 2)
            #expect(summary.changed == 0)
        }
    }

    @Test func `takes the last line of a token that is there twice`() async throws {
        try await withQueue { store in
            let lines = ["ab,zoe", "cd,adam", "ab,adam", "cd,zoe", "ef,zoe", "ef,"]
            for _ in 1...2 {
                _ = try await store.importDevices(
                    from: .text("token,user_key\n" + lines.joined(separator: "\n")), inQueue: queue, reactivates: false
                ) { _ in }
                #expect(try await contents(store) == ["ab adam true", "cd zoe true", "ef - true"])
            }
        }
    }

    @Test func `makes a new device inactive that is so in the file, and leaves others as they are`() async throws {
        try await withQueue { store in
            _ = try await store.importDevices(from: .text("ab\ncd\n"), inQueue: queue, reactivates: false) { _ in }
            _ = try await store.setDevice(DeviceToken(hex: "cd"), inQueue: queue, isActive: false)
            for reactivates in [false, true] {
                let summary = try await store.importDevices(
                    from: .text("token,user_key,active\nab,,false\ncd,,false\nef,9,false\n"), inQueue: queue,
                    reactivates: reactivates
                ) { _ in }
                #expect(summary.read == 3 && summary.inactive == 3)
                #expect(try await contents(store) == ["ab - true", "cd - false", "ef 9 false"])
            }
        }
    }

    @Test func `brings inactive devices back only if asked`() async throws {
        try await withQueue { store in
            _ = try await store.importDevices(from: .text("ab\ncd\n"), inQueue: queue, reactivates: false) { _ in }
            _ = try await store.setDevice(DeviceToken(hex: "ab"), inQueue: queue, isActive: false)
            _ = try await store.importDevices(from: .text("ab\ncd\n"), inQueue: queue, reactivates: false) { _ in }
            #expect(try await contents(store) == ["ab - false", "cd - true"])
            let summary = try await store.importDevices(
                from: .text("ab\ncd\n"), inQueue: queue, reactivates: true
            ) { _ in }
            #expect(summary.changed == 1)
            #expect(try await contents(store) == ["ab - true", "cd - true"])
        }
    }

    @Test func `imports nothing of a file with a broken line`() async throws {
        try await withQueue { store in
            let error = await #expect(throws: DeviceFileError.self) {
                try await store.importDevices(from: .text("ab\ncd\nefg\n"), inQueue: queue, reactivates: false) { _ in }
            }
            #expect(error?.line == 3)
            #expect(try await contents(store).isEmpty)
            // The connection is as good as before.
            let summary = try await store.importDevices(from: .text("ab\n"), inQueue: queue, reactivates: false) { _ in
            }
            #expect(summary.new == 1)
        }
    }

    @Test func `gives way to a device that is registered at the same moment`() async throws {
        try await withDatabase { actor, database in
            let store = try await database.connect()
            let other = try await database.connect()
            _ = try await store.createTenant("acme")
            _ = try await store.createApp("com.acme.shop", of: "acme")
            _ = try await store.createQueue(queue)
            // Not committed yet, so the import does not see it and then waits for it.
            try await other.runScript("begin; select pushq.register_device('\(queue)', 'ab', 'theirs')")
            let importing = Task {
                _ = actor  // where the connection lives
                return try await store.importDevices(
                    from: .text("token,user_key\nab,ours\ncd,ours\n"), inQueue: queue, reactivates: false
                ) { _ in }
            }
            let watcher = try await database.connect()
            try await eventually("the import waits") { try await watcher.isAnybodyWaiting() }
            try await other.runScript("commit")
            #expect(try await importing.value.new == 1)
            #expect(try await contents(store) == ["ab theirs true", "cd ours true"])
        }
    }
}

extension PostgresConnection {
    fileprivate func isAnybodyWaiting() async throws -> Bool {
        // The server is shared with all other tests.
        let sql = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
        return try await execute(Statement("waiting", sql)).count > 0
    }
}

@Suite struct `Campaigns and sends` {
    private static let message = MessageDraft(payload: #"{"aps":{"alert":"hello"}}"#)

    @Test func `to a list of tokens are the same whatever its order`() async throws {
        try await withQueue { store in
            let first = try await store.startCampaign(
                Self.message, toDevicesIn: .text("ab\ncd\n"), key: "k", inQueue: queue
            ) { _ in }
            let second = try await store.startCampaign(
                Self.message, toDevicesIn: .text("cd\nab\ncd\n"), key: "k", inQueue: queue
            ) { _ in }
            #expect(first == second)
            // A producer may have started it by SQL.
            try await store.runScript(
                #"""
                select pushq.start_campaign('\#(queue)', 'k', '{"aps": {"alert": "hello"}}'::jsonb, tokens => array['CD', 'ab']);
                select pushq.start_campaign('\#(queue)', 'sql', '{"aps":{"alert":"hello"}}', tokens => array['cd', 'ab'])
                """#)
            let third = try await store.startCampaign(
                Self.message, toDevicesIn: .text("cd\nab\n"), key: "sql", inQueue: queue
            ) { _ in }
            #expect(try await store.campaign("sql", ofQueue: queue)?.id == third)
            #expect(try await store.campaigns(ofQueue: queue, limit: 9).count == 2)
            await #expect(throws: PostgresError.self) {
                try await store.startCampaign(
                    Self.message, toDevicesIn: .text("ab\n"), key: "k", inQueue: queue
                ) { _ in }
            }
        }
    }

    @Test func `are paused, resumed and cancelled`() async throws {
        try await withQueue { store in
            _ = try await store.registerDevice(DeviceToken(hex: "ab"), inQueue: queue)
            let id = try await store.startCampaign(Self.message, key: "k", inQueue: queue)
            #expect(try await store.campaign("k", ofQueue: queue)?.id == id)
            #expect(try await store.campaign("k", ofQueue: queue)?.state == "running")
            #expect(try await store.order(.pause, campaign: "k", ofQueue: queue))
            #expect(try await store.campaign("k", ofQueue: queue)?.state == "paused")
            #expect(try await store.order(.resume(sendBy: nil), campaign: "k", ofQueue: queue))
            #expect(try await store.order(.cancel, campaign: "k", ofQueue: queue))
            #expect(try await store.campaign("k", ofQueue: queue)?.state == "cancelled")
            #expect(try await !store.order(.pause, campaign: "k", ofQueue: queue))
            #expect(try await store.campaign("other", ofQueue: queue) == nil)
        }
    }

    @Test func `show what waits`() async throws {
        try await withQueue { store in
            let token = try DeviceToken(hex: "ab")
            let root = try await store.send(
                Self.message, to: .tokens([token]), ofQueue: queue, key: "k")
            let again = try await store.send(
                Self.message, to: .tokens([token]), ofQueue: queue, key: "k")
            #expect(root == again)
            let progress = try #require(try await store.progress(ofRoot: root, inQueue: queue))
            #expect(progress.total == 1)
            #expect(!progress.isFinished)
            #expect(try await store.device(token, inQueue: queue)?.id == progress.firstDeviceID)
            let jobs = try await store.jobs(ofQueue: queue, limit: 10)
            #expect(jobs.map(\.recipientCount) == [1])
            #expect(jobs.map(\.state) == ["waiting"])
            #expect(try await store.statistics(of: nil).map(\.waitingRecipients) == [1])
            #expect(try await store.feedback(ofQueue: queue, limit: 10).isEmpty)
            #expect(try await store.workers().isEmpty)
        }
    }
}
