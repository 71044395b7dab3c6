import Foundation
import Metrics
import TestSupport
import Testing

@testable import Workers

/// Compares the metrics used in `deploy/` with the metrics that exist.
@Suite(.timeLimit(.minutes(10))) struct `The alert rules and the dashboard` {
    private static let folder = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appending(path: "deploy")

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: folder.appending(path: path), encoding: .utf8)
    }

    /// All expressions of the dashboard: those of its panels and its variables.
    private static func expressions() throws -> [String] {
        let dashboard = try JSONSerialization.jsonObject(with: Data(text("grafana/dashboard.json").utf8))
        var expressions: [String] = []
        func look(at value: Any) {
            if let object = value as? [String: Any] {
                for (key, value) in object {
                    if key == "expr" || key == "query", let text = value as? String { expressions.append(text) }
                    look(at: value)
                }
            } else if let list = value as? [Any] {
                for value in list { look(at: value) }
            }
        }
        look(at: dashboard)
        return expressions
    }

    /// The metrics by the names of their series, and by the names used in texts.
    private static let metrics = Dictionary(
        uniqueKeysWithValues: MetricCatalog.all.flatMap { metric in
            Set(metric.seriesNames + [metric.shownName]).map { ($0, metric) }
        })

    @Test(arguments: ["prometheus/rules.yml", "prometheus/rules.test.yml", "grafana/dashboard.json"])
    func `ask for metrics and labels that there are`(path: String) throws {
        // Quotation marks are escaped in JSON.
        let text = try Self.text(path).replacing(#"\""#, with: #"""#)
        var count = 0
        for match in text.matches(of: /\b((?:pushq|process)_\w+)(?:\{([^}]*)\})?/) {
            let name = String(match.output.1)
            let metric = try #require(Self.metrics[name], "\(path) asks for \(name)")
            count += 1
            for label in (match.output.2 ?? "").matches(of: /(\w+)(?:=~|!~|!=|=)"/) {
                let known = metric.labels + ["le", "instance", "job"]
                #expect(known.contains(String(label.output.1)), "\(path): \(name) has no label \(label.output.1)")
            }
        }
        #expect(count >= 20)
        let divisions = text.matches(of: /\b(?:by|on) \(([^)]*)\)/).flatMap { $0.output.1.split(separator: ",") }
        let labels = Set(MetricCatalog.all.flatMap(\.labels) + ["le", "instance", "job"])
        for label in divisions { #expect(labels.contains(label.filter { $0 != " " }), "\(path): by (\(label))") }
    }

    @Test func `ask for values of labels that there are`() throws {
        let known: [String: Set<String>] = [
            "lane": ["urgent", "normal", "bulk"], "state": ["working", "draining", "used", "free"],
            "result": ["accepted", "refused", "unanswered", "untouched"],
            "outcome": [
                "delivered", "rejected", "failed", "suppressed", "expired", "cancelled", "unknown", "retried",
                "postponed",
            ],
            "cause": ["unneeded", "used_up", "asked", "failed"],
            "statement": Set(TimedStatement.allCases.map { "\($0)" }),
        ]
        for path in ["prometheus/rules.yml", "prometheus/rules.test.yml", "grafana/dashboard.json"] {
            let text = try Self.text(path).replacing(#"\""#, with: #"""#)
            for match in text.matches(of: /[{,](\w+)(?:=~|!~|!=|=)"([^"$]*)"/) {
                guard let values = known[String(match.output.1)] else { continue }
                for value in match.output.2.split(separator: "|") {
                    #expect(values.contains(String(value)), "\(path): \(match.output.0)")
                }
            }
        }
    }

    /// With several databases, each worker shows the figures of those that it reads, and these have no label that tells
    /// databases apart.
    @Test func `add up what workers of several databases show in parts`() throws {
        let shown = try Self.expressions().filter {
            $0.contains("pushq_fleet_workers") || $0.contains("pushq_fleet_jobs_set_aside")
        }
        #expect(shown.count >= 2)
        for expression in shown { #expect(expression.hasPrefix("sum("), "\(expression)") }
    }

    @Test func `are accepted by promtool, and alert when they should`() async throws {
        let promtool = Executable(path: "/usr/bin/promtool")
        let rules = Self.folder.appending(path: "prometheus/rules.yml").path
        for arguments in [
            ["check", "rules", rules],
            ["test", "rules", Self.folder.appending(path: "prometheus/rules.test.yml").path],
        ] {
            let ended = try await promtool.run(arguments)
            #expect(ended.code == 0, "\(ended.output) \(ended.errors)")
        }
        let tests = try Self.text("prometheus/rules.test.yml")
        let alerts = try Self.text("prometheus/rules.yml").matches(of: /- alert: (\w+)/).map { $0.output.1 }
        #expect(alerts.count >= 15)
        for alert in alerts { #expect(tests.contains("alertname: \(alert)\n"), "\(alert) has no test that fires it") }
    }

    /// Grafana replaces its variables before it sends a query.
    @Test func `have expressions that Prometheus can read`() async throws {
        var rules = "groups:\n- name: dashboard\n  rules:\n"
        let expressions = try Self.expressions().filter { $0 != "prometheus" && !$0.hasPrefix("label_values(") }
        #expect(expressions.count >= 30)
        for (index, expression) in expressions.enumerated() {
            let text = expression.replacing("$__rate_interval", with: "5m")
            rules += "  - {record: \"d\(index)\", expr: '\(text)'}\n"
        }
        let folder = try TemporaryFolder()
        try folder.write(rules, to: "rules.yml")
        let ended = try await Executable(path: "/usr/bin/promtool").run(["check", "rules", folder.path("rules.yml")])
        #expect(ended.code == 0, "\(ended.output) \(ended.errors)")
    }
}
