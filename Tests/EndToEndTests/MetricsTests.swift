import Foundation
import LocalStack
import TestSupport
import Testing
import Transport

extension `Real processes` {
    @Suite struct `A worker's metrics` {
        /// Checks a page with the tool of Prometheus.
        private func lint(_ page: String) async throws -> Executable.Ended {
            try await Executable(path: "/usr/bin/promtool").run(["check", "metrics"], input: page)
        }

        @Test func `are accepted by promtool, and are what the simulator and the database count`() async throws {
            try await withRig {
                $0.devices = 3000
                $0.rules = #"""
                    {"latency_ms": 5, "outcomes": [
                      {"reason": "BadDeviceToken", "share": 0.02},
                      {"reason": "TooManyRequests", "share": 0.05, "times": 1}], "go_away": {"after_requests": 700}}
                    """#
            } _: { rig in
                let worker = try rig.startWorker(["--metrics", "127.0.0.1:0", "--engines", "2"])
                let place = try await worker.metricsAddress()
                try await rig.startCampaign()
                try await rig.waitUntilFinished()
                let ends = try await rig.number("select sum(octet_length(outcomes)) from pushq.result")
                let text = try await eventually("all ends are counted", within: .seconds(60)) {
                    try await PlainClient.get("/metrics", from: place).body
                } until: {
                    ScrapedPage($0).sum("pushq_outcomes_total") == Double(ends)
                }
                let open = try await PlainClient.get(
                    "/metrics", from: place, accept: "application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
                #expect(open.fields["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8")
                #expect(open.body.hasSuffix("# EOF\n"))
                // The tool reads only the older format. Prometheus itself reads OpenMetrics, below.
                let checked = try await lint(text)
                #expect(checked.code == 0, "\(checked.output) \(checked.errors)")
                #expect(ScrapedPage(open.body).names == ScrapedPage(text).names)

                let page = ScrapedPage(text)
                let progress = { (column: String) in
                    Double(try await rig.number("select sum(\(column)) from pushq.campaign_progress"))
                }
                for outcome in ["delivered", "rejected", "failed"] {
                    #expect(
                        page.sum("pushq_outcomes_total", "outcome=\"\(outcome)\"") == (try await progress(outcome)))
                }
                _ = await worker.drain()
                await rig.simulator.stop()
                var answers: [String: Double] = [:]
                for arrival in try PushRecord(files: rig.recordFiles).pushes.values.joined()
                where arrival.answeredAt != nil {
                    answers[arrival.reason, default: 0] += 1
                }
                #expect(answers.keys.sorted() == ["", "BadDeviceToken", "TooManyRequests"])
                #expect(page.sum("pushq_answers_total", #"result="accepted""#) == answers[""])
                for reason in ["BadDeviceToken", "TooManyRequests"] {
                    #expect(page.sum("pushq_answers_total", "reason=\"\(reason)\"") == answers[reason])
                }
                #expect(page.sum("pushq_apns_goaways_total") > 0)
            }
        }

        /// Starts Prometheus at a free port. If another program takes the port first, Prometheus ends, and gets another
        /// port.
        private func startPrometheus(in folder: TemporaryFolder) async throws -> (process: ChildProcess, port: UInt16) {
            for _ in 1...3 {
                let port = try freePort()
                let process = try Executable(path: "/usr/bin/prometheus").start(
                    [
                        "--config.file=\(folder.path("prometheus.yml"))", "--storage.tsdb.path=\(folder.path("data"))",
                        "--web.listen-address=127.0.0.1:\(port)",
                    ], output: folder.path("out"), errors: folder.path("err"))
                try await eventually("Prometheus listens or has ended", within: .seconds(60)) {
                    if process.exit != nil { return true }
                    let answer = try? await PlainClient.get("/-/ready", from: .tcp(host: "127.0.0.1", port: port))
                    return answer?.body.contains("Prometheus") == true
                }
                if process.exit == nil { return (process, port) }
            }
            throw NeverHappened(description: "Prometheus has ended three times: \(folder.read("err"))")
        }

        @Test func `are scraped by Prometheus, which finds them as they are`() async throws {
            try await withRig {
                $0.devices = 500
            } _: { rig in
                let worker = try rig.startWorker(["--metrics", "127.0.0.1:0"])
                let place = try await worker.metricsAddress()
                let folder = try TemporaryFolder()
                try folder.write(
                    """
                    global: {scrape_interval: 1s}
                    scrape_configs:
                      - job_name: pushq
                        static_configs: [{targets: ["\(place)"]}]
                    """, to: "prometheus.yml")
                let (prometheus, port) = try await startPrometheus(in: folder)
                defer { prometheus.signal(SIGKILL) }
                try await rig.startCampaign()
                try await rig.waitUntilFinished()
                try await eventually("Prometheus has counted 500", within: .seconds(90)) {
                    let answer = try? await PlainClient.get(
                        "/api/v1/query?query=sum(pushq_outcomes_total)", from: .tcp(host: "127.0.0.1", port: port))
                    return answer?.body.contains(#","500"]"#) == true
                }
                // Prometheus asks for OpenMetrics, which has other rules than the older format. It refused nothing.
                let health = try await PlainClient.get("/api/v1/targets", from: .tcp(host: "127.0.0.1", port: port))
                #expect(health.body.contains(#""health":"up""#) && health.body.contains(#""lastError":"""#))
                let types = try await PlainClient.get("/api/v1/metadata", from: .tcp(host: "127.0.0.1", port: port))
                #expect(types.body.contains(#""pushq_build":[{"type":"info""#), "it has read OpenMetrics")
            }
        }

        @Test(arguments: [
            (["--metrics", "nonsense:"], "is not an address to listen on, such as 9464"),
            (["--metrics", "unix:relative"], "is not an address to listen on"),
            (["--metrics-queues", "-1"], "--metrics-queues -1 is not between 0 and 10000"),
        ])
        func `are not served at what is no address, in one line`(arguments: [String], line: String) async throws {
            try await Shop.open { shop in
                let ended = try await Executable.pushq.run(["work"] + arguments, environment: shop.environment)
                #expect(ended.code == 2)
                #expect(ended.errors.contains(line), "\(ended.errors)")
                #expect(ended.errors.split(separator: "\n").count == 1)
            }
        }

        @Test func `end the worker at once where the port is taken, in one line`() async throws {
            try await withRig { rig in
                let first = try rig.startWorker(["--metrics", "127.0.0.1:0"])
                let place = try await first.metricsAddress()
                let second = try rig.startWorker(["--metrics", "\(place)"])
                #expect(await second.process.waitForExit(within: .seconds(60)) == .code(1))
                #expect(second.log.contains("cannot listen on \(place): Address already in use; choose another port\""))
                #expect(second.log.split(separator: "\n").count == 1)
            }
        }
    }
}

extension WorkerProcess {
    /// The address of the worker's metrics, from its log.
    func metricsAddress() async throws -> ListenAddress {
        try await says("metrics are served at")
        let port = log.firstMatch(of: /metrics are served at 127\.0\.0\.1:(\d+)"/).flatMap { UInt16($0.output.1) }
        return .tcp(host: "127.0.0.1", port: try #require(port))
    }
}

/// A port at which no server listened a moment ago.
private func freePort() throws -> UInt16 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    return try unsafe withUnsafeMutablePointer(to: &address) { pointer in
        try unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            try #require(unsafe bind(descriptor, $0, length) == 0)
            unsafe getsockname(descriptor, $0, &length)
            return unsafe UInt16(bigEndian: UnsafeRawPointer($0).load(fromByteOffset: 2, as: UInt16.self))
        }
    }
}
