import Foundation
import QueueCore
import Testing

@testable import APNs

@Suite struct `The gateway's times and limits` {
    @Test func `are those of the page on APNs`() throws {
        let root = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "docs/apns.md"), encoding: .utf8)
        let settings = [Mirror(reflecting: GatewaySettings()), Mirror(reflecting: BinarySettings())]
        for child in settings.flatMap(\.children) {
            let value: String =
                switch child.value {
                case let backoff as Backoff: "\(backoff.base) to \(backoff.cap)"
                default: "\(child.value)"
                }
            let row = "| `\(child.label ?? "")` | \(value) |"
            #expect(page.contains(row), "docs/apns.md should have a row that begins: \(row)")
        }
    }

    /// The gateway notices silence, and then a missing answer to the PING, each at most one check interval late.
    @Test func `find a server that has gone silent within 30 seconds`() {
        let settings = GatewaySettings()
        #expect(settings.pingAfterSilence + settings.pingTime + settings.checkInterval * 2 <= .seconds(30))
    }
}
