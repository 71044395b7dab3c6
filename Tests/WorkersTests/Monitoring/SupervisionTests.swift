import Foundation
import TestSupport
import Testing
import Transport

@testable import Workers

@Suite(.timeLimit(.minutes(10))) struct `What a service manager hears of a worker` {
    @Test(arguments: [false, true])
    func `is that it is ready after a poll, what it does, and that it lives as long as its loop turns`(
        isAbstract: Bool
    ) async throws {
        try await EngineFixture.run { _, fixture in
            let socket = try NotifySocket(isAbstract: isAbstract)
            let manager = try #require(
                ServiceManager(["NOTIFY_SOCKET": socket.name, "WATCHDOG_USEC": "300000"]))
            #expect(manager.watchdog == .milliseconds(300))
            try await fixture.withEngine { engine in
                let supervision = Task { await Supervision(of: [engine], for: manager).run() }
                defer { supervision.cancel() }
                try await eventually("it is ready, and lives") {
                    socket.messages.contains("READY=1") && socket.messages.count { $0 == "WATCHDOG=1" } > 2
                }
                #expect(socket.messages.count { $0 == "READY=1" } == 1)
                #expect(socket.messages.contains("STATUS=0 pushes in flight, 0 jobs held, 0 connections to APNs"))
                let ready = try #require(socket.messages.firstIndex(of: "READY=1"))
                #expect(
                    socket.messages[..<ready].allSatisfy { $0 == "WATCHDOG=1" || $0.hasPrefix("STATUS=") })

                let gate = Locked((isHanging: false, mayGoOn: false))
                engine.loop.post {
                    gate.withLock { $0.isHanging = true }
                    while !gate.withLock({ $0.mayGoOn }) { usleep(1000) }
                }
                try await eventually("the loop hangs") { gate.withLock { $0.isHanging } }
                let before = socket.messages.count
                try await stays("nothing speaks for a loop that hangs", for: .seconds(1)) {
                    // One message may have been under way.
                    socket.messages.count <= before + 1
                }
                let after = socket.messages.count
                gate.withLock { $0.mayGoOn = true }
                try await eventually("it lives again") { socket.messages.count > after }
            }
        }
    }

    @Test func `is nothing where nobody listens, and no sign of life is promised for another process`() throws {
        #expect(ServiceManager([:]) == nil)
        #expect(ServiceManager(["NOTIFY_SOCKET": "relative"]) == nil)
        #expect(ServiceManager(["NOTIFY_SOCKET": "/" + String(repeating: "x", count: 200)]) == nil)
        let environment = ["NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "300000", "WATCHDOG_PID": "1"]
        #expect(ServiceManager(environment)?.watchdog == nil)
        #expect(ServiceManager(environment, process: 1)?.watchdog == .milliseconds(300))
        ServiceManager(environment)?.ready()
    }
}
