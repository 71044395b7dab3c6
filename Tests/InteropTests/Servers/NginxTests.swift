import APNs
import TestSupport
import Testing

/// nginx, which reads the body and forwards the request over HTTP/1.1, or answers before it has read the body.
@Suite(.interop, .serialized, .timeLimit(.minutes(10)))
struct `A gateway and nginx` {
    @Test(arguments: [
        "http2_max_concurrent_streams 1;",
        "http2_max_concurrent_streams 128; http2_body_preread_size 0;",
        "http2_max_concurrent_streams 1000; http2_body_preread_size 65535; http2_chunk_size 1k;",
    ])
    func `get every body across`(limits: String) async throws {
        for payloadBytes in Exchange.payloadSizes {
            let server = try await start(limits, "proxy_pass http://unix:back.sock:; proxy_http_version 1.1;")
            let outcome = try await Exchange(payloadBytes: payloadBytes).run(to: server.endpoint)
            try await server.stop(after: 1000, linesOf: "back.log")
            #expect(outcome.tally == ["accepted": 1000], "\(limits), bodies of \(payloadBytes) bytes")
            expectEachOnce(server.lines(of: "front.log"), of: 1000, "\(limits)")
            let arrived = server.lines(of: "back.log")
            expectEachOnce(arrived, of: 1000, "\(limits)")
            #expect(arrived.allSatisfy { $0.hasPrefix("\(payloadBytes) ") }, "a body was not handed on whole")
            #expect(server.read("error.log") == "")
        }
    }

    /// After this number of requests on a connection, nginx sends GOAWAY and accepts no more on it.
    @Test(arguments: [100, 7]) func `lose nothing when it sends GOAWAY in the middle`(requests: Int) async throws {
        let limits = "keepalive_requests \(requests); http2_max_concurrent_streams 100;"
        let server = try await start(limits, "proxy_pass http://unix:back.sock:; proxy_http_version 1.1;")
        let outcome = try await Exchange(payloadBytes: 1024).run(to: server.endpoint)
        try await server.stop(after: 1000, linesOf: "back.log")
        #expect(outcome.tally == ["accepted": 1000])
        expectEachOnce(server.lines(of: "back.log"), of: 1000)
        #expect(Set(server.lines(of: "connections.log")).count >= 1000 / (requests + 100))
    }

    /// nginx logs for each connection whether its handshake was resumed.
    @Test(arguments: ["TLSv1.2", "TLSv1.3"]) func `resume the session of the connection before`(version: String)
        async throws
    {
        let limits = "keepalive_requests 10; ssl_protocols \(version);"
        let server = try await start(limits, "proxy_pass http://unix:back.sock:; proxy_http_version 1.1;")
        let outcome = try await Exchange(count: 200, payloadBytes: 1024).run(to: server.endpoint)
        try await server.stop(after: 200, linesOf: "back.log")
        #expect(outcome.tally == ["accepted": 200])
        let connections = Set(server.lines(of: "resumed.log"))
        // Connections that were opened at the same time as the first cannot resume a session yet.
        #expect(connections.count { $0.hasSuffix(" .") } <= GatewaySettings.brisk.maximumConnections)
        #expect(connections.count { $0.hasSuffix(" r") } >= 10)
    }

    /// `return` answers at once and discards the body as it arrives.
    @Test func `agree on answers that come before the body is read`() async throws {
        let server = try await start("keepalive_requests 10000;", "return 200;")
        let outcome = try await Exchange(count: 2000, payloadBytes: 5120).run(to: server.endpoint)
        try await server.stop(after: 2000, linesOf: "front.log")
        #expect(outcome == .init(tally: ["accepted": 2000], untouchedCount: 0))
        expectEachOnce(server.lines(of: "front.log"), of: 2000)
    }

    @Test func `agree on refusals`() async throws {
        let refusal =
            #"default_type application/json; return 410 '{"reason":"Unregistered","timestamp":1458114061260}';"#
        let server = try await start("keepalive_requests 10000;", refusal)
        let outcome = try await Exchange(payloadBytes: 1024).run(to: server.endpoint)
        await server.stop()
        #expect(outcome == .init(tally: ["410 Unregistered": 1000], untouchedCount: 0))
    }

    private func start(_ limits: String, _ location: String) async throws -> ForeignServer {
        try await ForeignServer.start(ForeignProgram("nginx")) { site in
            try site.write(configuration(site, limits, location), to: "nginx.conf")
            return ["-p", site.folder, "-c", "nginx.conf", "-e", "error.log"]
        }
    }

    private func configuration(_ site: ForeignServer.Site, _ limits: String, _ location: String) -> String {
        """
        daemon off; master_process off; pid nginx.pid; error_log error.log warn;
        events { worker_connections 4096; }
        http {
            client_body_temp_path bodies; proxy_temp_path proxied; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi;
            scgi_temp_path scgi;
            log_format front '$request_uri';
            log_format back '$content_length $request_uri';
            log_format connections '$connection';
            log_format resumed '$connection $ssl_session_reused';
            server {
                listen 127.0.0.1:\(site.port) ssl http2;
                ssl_certificate server.pem; ssl_certificate_key server.pem;
                \(limits)
                access_log front.log front;
                access_log connections.log connections;
                access_log resumed.log resumed;
                location / { \(location.replacing("unix:back.sock", with: "unix:\(site.folder)/back.sock")) }
            }
            server {
                listen unix:\(site.folder)/back.sock backlog=2048;
                access_log back.log back;
                location / { return 200; }
            }
        }
        """
    }
}
