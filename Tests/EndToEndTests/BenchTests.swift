import Foundation
import TestSupport
import Testing

/// Tests how `bench/run` evaluates its measurements, but not how long it measures.
@Suite struct `The comparison of bench/run` {
    @Test func `has medians, bars, verdicts and keys as they are meant`() async throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let ended = try await Executable(path: "/usr/bin/python3").run(
            ["-B", "-m", "unittest", "measured.test_figures"],
            environment: ["PYTHONPATH": root.appending(path: "bench").path], within: .seconds(60))
        #expect(ended.code == 0, "\(ended.errors)")
        #expect(ended.errors.contains("OK"))
    }
}
