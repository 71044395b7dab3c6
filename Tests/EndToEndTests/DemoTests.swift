import Foundation
import Glibc
import LocalStack
import TestSupport
import Testing

extension `Real processes` {
    @Suite struct `pushq demo` {
        private struct Report: Decodable {
            let recipients, delivered, rejected, failed, suppressed, expired, cancelled, unknown, arrived, repeated: Int
            let reasons: [String: Int]
            let fsync, synchronousCommit: String
        }

        @Test func `ends with figures that add up, and leaves nothing behind`() async throws {
            let place = try DemoPlace()
            let demo = try place.start(["--devices", "3000", "--json"])
            #expect(await demo.waitForExit(within: .seconds(60)) == .code(0), "\(place.log)")
            let decoder = JSONDecoder()
            decoder.keyDecodingStrategy = .convertFromSnakeCase
            let report = try decoder.decode(
                Report.self, from: Data(contentsOf: URL(fileURLWithPath: place.output)))
            #expect(report.recipients == 3000)
            let outcomes = [
                report.delivered, report.rejected, report.failed, report.suppressed, report.expired, report.cancelled,
                report.unknown,
            ]
            #expect(outcomes.reduce(0, +) == 3000)
            #expect(report.reasons.values.reduce(0, +) == report.rejected + report.failed)
            #expect(report.repeated == 0)
            #expect(report.arrived >= report.delivered + report.rejected)
            #expect(report.fsync == "on" && report.synchronousCommit == "on")
            try await place.expectGone()
        }

        @Test(arguments: [SIGINT, SIGKILL]) func `leaves nothing behind when it is ended`(by signal: Int32) async throws
        {
            let place = try DemoPlace()
            let demo = try place.start(["--devices", "60000", "--json"])
            try await eventually("the demo's workers", within: .seconds(60)) {
                guard demo.exit == nil else { throw NeverHappened(description: "the demo \(demo.exit!): \(place.log)") }
                return place.log.contains("workers started")
            }
            demo.signal(signal)
            #expect(await demo.waitForExit(within: .seconds(30)) == (signal == SIGINT ? .code(1) : .signal(signal)))
            try await place.expectGone()
        }
    }
}

/// Where a demo keeps all that it makes, and by which all that it starts is known.
private struct DemoPlace {
    let folder: String
    var output: String { "\(folder).out" }
    var log: String { (try? String(contentsOfFile: "\(folder).log", encoding: .utf8)) ?? "" }

    /// In a short path that PostgreSQL's user may enter.
    init() throws {
        folder = "/tmp/pushq-place-\(UInt32.random(in: 0 ... .max))"
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o755])
    }

    func start(_ arguments: [String]) throws -> ChildProcess {
        var command = try Program.command("pushq", ["demo"] + arguments, adding: ["TMPDIR": folder])
        command.output = .file(output)
        command.errors = .file("\(folder).log")
        return try ChildProcess(command)
    }

    /// Waits until no process names the folder, and nothing is in it; then takes it away.
    func expectGone() async throws {
        try await eventually("the end of the demo's processes", within: .seconds(30), { processes() }, until: \.isEmpty)
        try await eventually("an empty folder", within: .seconds(10)) {
            try FileManager.default.contentsOfDirectory(atPath: folder).isEmpty
        }
        for path in [folder, output, "\(folder).log"] { try FileManager.default.removeItem(atPath: path) }
    }

    /// The processes that were started with the folder as an argument or in their environment.
    private func processes() -> [String] {
        let numbers = ((try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []).filter {
            Int32($0) != nil
        }
        return numbers.filter { number in
            ["cmdline", "environ"].contains { file in
                let data = try? Data(contentsOf: URL(fileURLWithPath: "/proc/\(number)/\(file)"))
                return data.map { String(decoding: $0, as: UTF8.self).contains(folder) } ?? false
            }
        }
    }
}
