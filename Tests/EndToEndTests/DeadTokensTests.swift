import Foundation
import LocalStack
import PostgresStore
import QueueCore
import TestSupport
import Testing
import Transport

extension `Real processes that report` {
    @Suite struct `A token that APNs found dead 30 days ago` {
        /// The prefix of all three tokens. The simulator reports tokens with it as dead.
        private static let prefix = "dead"
        private static func hex(_ name: String) -> String { prefix + String(repeating: name, count: 30) }

        @Test(arguments: [false, true])
        func `is deactivated however pushq got to know it, unless its app has registered it since`(isBinary: Bool)
            async throws
        {
            let died = Int(Date.now.timeIntervalSince1970) - 30 * 24 * 3600
            try await withRig {
                $0.devices = 0
                $0.isBinary = isBinary
                $0.rules = """
                    {"outcomes": [{"token_prefix": "\(Self.prefix)", "reason": "Unregistered", "timestamp": \(died)000}]}
                    """
            } _: { rig in
                // A worker that starts does not poll the feedback service until everything is sent.
                try await rig.run(
                    """
                    insert into pushq.feedback_poll (queue_id, not_before)
                    select id, now() + interval '1 hour' from pushq.queue
                    """)
                try rig.startWorker()
                let store = try await rig.store.current()
                let queue = rig.queue
                let token = { (name: String) in try DeviceToken(hex: Self.hex(name)) }
                let pieces = Locked([Array(Self.hex("01").utf8)])
                let file = DeviceFile(name: "devices.csv") { pieces.withLock { $0.popLast() } }
                _ = try await store.importDevices(from: file, inQueue: queue, reactivates: false) { _ in }
                _ = try await store.registerDevice(token("03"), userKey: nil, inQueue: queue)
                try await rig.startCampaign()
                _ = try await store.send(
                    MessageDraft(payload: #"{"aps":{"alert":"hello"}}"#), to: .tokens([token("02")]), ofQueue: queue,
                    key: nil)
                try await rig.waitUntilFinished()
                try await eventually("the end of the send", within: .seconds(60)) {
                    try await rig.number("select count(*) from pushq.result") == 2
                }
                try await rig.run(
                    "delete from pushq.feedback_poll; update pushq.duty set next_at = now() where name = 'feedback'")
                try await eventually("what became of the reports", within: .seconds(60)) {
                    try await rig.number("select count(*) from pushq.feedback where verdict <> 'suspect'") == 3
                }

                for name in ["01", "02"] {
                    let device = try #require(try await store.device(token(name), inQueue: queue))
                    #expect(!device.isActive, "the device that was imported or only sent to is kept: \(name)")
                    #expect(device.registeredAt == nil)
                    #expect(device.inactiveSince.map { Int($0.timeIntervalSince1970) } == died)
                }
                let registered = try #require(try await store.device(token("03"), inQueue: queue))
                #expect(registered.isActive, "an app has reported it since")
            }
        }
    }
}
