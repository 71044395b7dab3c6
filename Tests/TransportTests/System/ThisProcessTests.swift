import Foundation
import Testing
import Transport

@Suite struct `This process` {
    @Test func `has the environment, the number and the machine that Foundation finds`() {
        #expect(ThisProcess.environment == ProcessInfo.processInfo.environment)
        #expect(!ThisProcess.environment.isEmpty)
        #expect(ThisProcess.number == ProcessInfo.processInfo.processIdentifier)
        let host = try? String(contentsOfFile: "/proc/sys/kernel/hostname", encoding: .utf8)
        #expect(host?.split(separator: "\n").first.map(String.init) == ThisProcess.hostName)
    }
}
