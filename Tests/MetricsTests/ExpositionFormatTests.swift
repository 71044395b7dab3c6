import Foundation
import Metrics
import Testing

@Suite struct `A page of metrics` {
    private static let families: [MetricFamily] = {
        var pushes = MetricFamily(
            Metric("t_pushes", .counter, "Pushes, \"sent\"\nor \\ not.", labels: ["app", "lane"]))
        pushes.add(3, ["com.acme", "bulk"])
        pushes.add(4, ["a\"b\\c\nd", ""])
        var wait = MetricFamily(Metric("t_wait_seconds", .histogram, "Waits."))
        var histogram = Histogram([1_000_000, 1_000_000_000])
        histogram.observe(nanoseconds: 500_000)
        histogram.observe(nanoseconds: 2_000_000, count: 2)
        histogram.observe(.seconds(90))
        wait.add(histogram)
        var build = MetricFamily(Metric("t_build", .info, "Version.", labels: ["version"]))
        build.add(1, ["1.2"])
        var age = MetricFamily(Metric("t_age_seconds", .gauge, "Age."))
        age.add(1.5)
        return [pushes, wait, build, age, MetricFamily(Metric("t_nothing", .gauge, "Has no value."))]
    }()

    private func page(_ format: ExpositionFormat) -> String {
        String(decoding: format.page(of: Self.families), as: UTF8.self)
    }

    @Test func `is written as Prometheus' text format says`() {
        #expect(
            page(.prometheusText) == #"""
                # HELP t_pushes_total Pushes, "sent"\nor \\ not.
                # TYPE t_pushes_total counter
                t_pushes_total{app="com.acme",lane="bulk"} 3
                t_pushes_total{app="a\"b\\c\nd",lane=""} 4
                # HELP t_wait_seconds Waits.
                # TYPE t_wait_seconds histogram
                t_wait_seconds_bucket{le="0.001"} 1
                t_wait_seconds_bucket{le="1.0"} 3
                t_wait_seconds_bucket{le="+Inf"} 4
                t_wait_seconds_sum 90.0045
                t_wait_seconds_count 4
                # HELP t_build_info Version.
                # TYPE t_build_info gauge
                t_build_info{version="1.2"} 1
                # HELP t_age_seconds Age.
                # TYPE t_age_seconds gauge
                t_age_seconds 1.5

                """#)
    }

    @Test func `is written as OpenMetrics says`() {
        #expect(
            page(.openMetrics) == #"""
                # HELP t_pushes Pushes, \"sent\"\nor \\ not.
                # TYPE t_pushes counter
                t_pushes_total{app="com.acme",lane="bulk"} 3
                t_pushes_total{app="a\"b\\c\nd",lane=""} 4
                # HELP t_wait_seconds Waits.
                # TYPE t_wait_seconds histogram
                # UNIT t_wait_seconds seconds
                t_wait_seconds_bucket{le="0.001"} 1
                t_wait_seconds_bucket{le="1.0"} 3
                t_wait_seconds_bucket{le="+Inf"} 4
                t_wait_seconds_sum 90.0045
                t_wait_seconds_count 4
                # HELP t_build Version.
                # TYPE t_build info
                t_build_info{version="1.2"} 1
                # HELP t_age_seconds Age.
                # TYPE t_age_seconds gauge
                # UNIT t_age_seconds seconds
                t_age_seconds 1.5
                # EOF

                """#)
    }

    @Test(arguments: [
        ([], ExpositionFormat.prometheusText), (["*/*"], .prometheusText), (["text/plain"], .prometheusText),
        (["application/openmetrics-text"], .openMetrics),
        // The header that Prometheus 2.42 sends.
        (
            [
                "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                    + "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
            ], .openMetrics
        ),
        (["application/openmetrics-text; version=\"1.0.0\"; q=0.2", "text/plain; q=0.3"], .prometheusText),
        (["application/openmetrics-text;version=2.0.0,text/plain;q=0.1"], .prometheusText),
        (["application/openmetrics-text;q=0,*/*;q=0.1"], .prometheusText), (["image/png"], .prometheusText),
    ])
    func `has the format that the client likes best`(accept: [String], format: ExpositionFormat) {
        #expect(ExpositionFormat.preferred(by: accept) == format)
    }
}
