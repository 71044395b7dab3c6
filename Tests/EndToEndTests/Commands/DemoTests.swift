import Foundation
import LocalStack
import TestSupport
import Testing

/// Tests the demo as a process, as a person sees it.
@Suite(.serialized, .timeLimit(.minutes(10))) struct `The demo` {
    /// The output with `--json`.
    private struct Report: Decodable {
        let recipients, delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried: Int
        let reasons: [String: Int]
        let seconds: [String: Double]
        let perSecond: Double
        let arrived, repeated: Int
        let fsync, synchronousCommit: String

        enum CodingKeys: String, CodingKey {
            case recipients, delivered, rejected, failed, suppressed, expired, cancelled, unknown, retried
            case reasons, seconds, arrived, repeated, fsync
            case perSecond = "per_second"
            case synchronousCommit = "synchronous_commit"
        }

        var sum: Int { delivered + rejected + failed + suppressed + expired + cancelled + unknown }
    }

    @Test func `ends with figures that add up`() async throws {
        let ended = try await Executable.pushq.run(["demo", "--devices", "5000", "--json"])
        #expect(ended.code == 0, "\(ended.errors)")
        let report = try JSONDecoder().decode(Report.self, from: Data(ended.output.utf8))
        #expect(report.recipients == 5000)
        #expect(report.sum == report.recipients)
        #expect(report.reasons.values.reduce(0, +) == report.rejected + report.failed)
        #expect(report.rejected > 0)
        #expect(report.retried > 0)
        #expect(report.arrived == report.delivered + report.rejected + report.retried + report.repeated)
        #expect(Set(report.seconds.keys) == ["import", "fan_out", "deliver", "campaign"])
        #expect(report.perSecond > 0)
        #expect([report.fsync, report.synchronousCommit] == ["on", "on"])
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGKILL])
    func `leaves nothing behind, whatever ends it`(signal: Int32) async throws {
        let folder = try TemporaryFolder()
        let temporary = folder.path("t")
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: false)
        let demo = try Executable.pushq.start(
            ["demo"], environment: ["TMPDIR": temporary], output: folder.path("output"), errors: folder.path("errors"))
        try await eventually("the demo sends", within: .seconds(60)) {
            folder.read("errors").contains("workers started")
        }
        let server = try #require(folder.read("errors").firstMatch(of: /PostgreSQL started in (\S.*), for this demo/))
        let socket = String(server.output.1)
        #expect(FileManager.default.fileExists(atPath: socket))
        demo.signal(signal)
        _ = await demo.waitForExit(within: .seconds(30))
        try await eventually("all is gone", within: .seconds(30)) {
            let left = try FileManager.default.contentsOfDirectory(atPath: temporary)
            return left.isEmpty && !FileManager.default.fileExists(atPath: socket)
        }
        #expect(folder.read("output").isEmpty)
    }
}
