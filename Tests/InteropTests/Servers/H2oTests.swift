import APNs
import Glibc
import Testing

/// h2o, which reads each body in its embedded Ruby and answers depending on it.
@Suite(.interop, .serialized, .timeLimit(.minutes(10)))
struct `A gateway and h2o` {
    /// h2o handles this many requests of a connection at a time. It accepts more, which wait.
    @Test(arguments: [1, 100, 256]) func `get every body across`(requests: Int) async throws {
        for payloadBytes in Exchange.payloadSizes {
            let server = try await start("http2-max-concurrent-requests-per-connection: \(requests)")
            let outcome = try await Exchange(payloadBytes: payloadBytes).run(to: server.endpoint)
            await server.stop()
            #expect(outcome.tally == ["accepted": 1000], "\(requests) at one time, bodies of \(payloadBytes) bytes")
            let arrived = server.lines(of: "access.log")
            expectEachOnce(arrived, of: 1000)
            #expect(arrived.allSatisfy { $0.hasPrefix("200 \(payloadBytes) ") }, "a body was not read whole")
        }
    }

    @Test func `agree on refusals`() async throws {
        let server = try await start(
            "", status: 410, answer: #"{\"reason\":\"Unregistered\",\"timestamp\":1458114061260}"#)
        let outcome = try await Exchange().run(to: server.endpoint)
        await server.stop()
        #expect(outcome == .init(tally: ["410 Unregistered": 1000], untouchedCount: 0))
    }

    private func start(_ limits: String, status: Int = 200, answer: String = "") async throws -> ForeignServer {
        try await ForeignServer.start(ForeignProgram("h2o")) { site in
            try site.write(configuration(site, limits, status, answer), to: "h2o.conf")
            return ["-c", site.path("h2o.conf")]
        }
    }

    private func configuration(_ site: ForeignServer.Site, _ limits: String, _ status: Int, _ answer: String) -> String
    {
        """
        \(getuid() == 0 ? "user: root" : "")
        num-threads: 1
        error-log: \(site.path("error.log"))
        \(limits)
        listen:
          host: 127.0.0.1
          port: \(site.port)
          ssl: { certificate-file: \(site.identity), key-file: \(site.identity) }
        access-log: { path: \(site.path("access.log")), format: "%s %{x-body-bytes}o %U" }
        hosts:
          default:
            paths:
              "/":
                mruby.handler: |
                  Proc.new do |env|
                    body = env["rack.input"] ? env["rack.input"].read : ""
                    [\(status), {"x-body-bytes" => body.length.to_s}, ["\(answer)"]]
                  end
        """
    }
}
