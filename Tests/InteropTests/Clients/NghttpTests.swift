import APNsSimulator
import Testing

/// nghttp and h2load of nghttp2 (Debian: nghttp2-client).
@Suite(.interop, .timeLimit(.minutes(10)))
struct `nghttp and the simulator` {
    /// nghttp logs each frame that it reads and writes.
    @Test(arguments: [
        [], ["--padding=255"], ["--header-table-size=0"], ["--encoder-header-table-size=0"], ["--window-bits=1"],
        ["--no-content-length"], ["--trailer=after: all"],
    ])
    func `agree on every frame`(options: [String]) async throws {
        let own = try await OwnSimulator.start()
        let payload = ["--data", try own.write(#"{"aps":{"badge":1}}"#, to: "payload")]
        let log = try await ForeignProgram("nghttp")
            .run(["--verbose", "--multiply=200"] + options + payload + fields(own) + [own.url()])
            .split(separator: "\n")
        let counted = await own.simulator.stop()
        #expect(log.count { $0.contains(") :status: 200") } == 200)
        let resets = log.filter { $0.contains("RST_STREAM frame") }
        #expect(resets.isEmpty)
        let errors = log.filter { $0.contains("error_code=") && !$0.contains("error_code=NO_ERROR") }
        #expect(errors.isEmpty)
        #expect(counted.accepted == 200)
        #expect(counted.arrived == 200)
    }

    @Test func `agree on refusals`() async throws {
        let own = try await OwnSimulator.start()
        let arguments = ["--verbose", "--data", try own.write("{}", to: "payload")] + (try fields(own))
        let log = try await ForeignProgram("nghttp").run(arguments + [own.url("dead")])
        #expect(log.contains(") :status: 410"))
        #expect(log.contains(#"{"reason":"Unregistered","timestamp":1458114061260}"#))
    }

    @Test(arguments: [(1, 1), (2, 100), (4, 1000)])
    func `and h2load agree on ten thousand requests`(connections: Int, streams: Int) async throws {
        let own = try await OwnSimulator.start()
        let payload = try own.write(String(repeating: " ", count: 4096), to: "payload")
        let report = try await ForeignProgram("h2load")
            .run(
                ["--requests=10000", "--clients=\(connections)", "--max-concurrent-streams=\(streams)"]
                    + ["--data=\(payload)"] + fields(own) + [own.url()])
        let counted = await own.simulator.stop()
        #expect(report.contains("10000 done, 10000 succeeded, 0 failed, 0 errored, 0 timeout"))
        #expect(report.contains("status codes: 10000 2xx, 0 3xx, 0 4xx, 0 5xx"))
        #expect(counted.accepted == 10_000)
        #expect(counted.connections == connections)
    }

    private func fields(_ own: OwnSimulator) throws -> [String] {
        [
            "--header=authorization: \(try own.authorization())", "--header=apns-topic: com.example.App",
            "--header=apns-push-type: alert",
        ]
    }
}
