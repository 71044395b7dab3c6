/// The format in which a server that scrapes metrics gets them.
///
/// Sources: prometheus.io/docs/instrumenting/exposition_formats (text format 0.0.4), and the specification of
/// OpenMetrics 1.0 (prometheus/OpenMetrics).
package enum ExpositionFormat: CaseIterable, Sendable {
    case prometheusText, openMetrics

    /// The media type of the answer.
    package var contentType: String {
        switch self {
        case .prometheusText: "text/plain; version=0.0.4; charset=utf-8"
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        }
    }

    /// The format that a client prefers by its `Accept` (RFC 9110 §12.5.1); the older one if it accepts both equally,
    /// or states no preference.
    package static func preferred(by accept: [String]) -> ExpositionFormat {
        var best: (quality: Double, isText: Bool) = (0, true)
        for part in accept.flatMap({ $0.split(separator: ",") }) {
            let pieces = part.split(separator: ";").map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }
            guard let type = pieces.first else { continue }
            var (quality, version) = (1.0, "")
            for piece in pieces.dropFirst() {
                if piece.hasPrefix("q=") { quality = Double(piece.dropFirst(2)) ?? 0 }
                if piece.hasPrefix("version=") { version = piece.dropFirst("version=".count).filter { $0 != "\"" } }
            }
            // Drafts of OpenMetrics had version 0.0.1.
            let isOpenMetrics =
                type == "application/openmetrics-text" && ["", "1.0.0", "0.0.1"].contains(version)
            let isText = type == "text/plain" || type == "text/*" || type == "*/*"
            guard isOpenMetrics || isText, quality > best.quality || quality == best.quality && isText else { continue }
            best = (quality, isText)
        }
        return best.isText ? .prometheusText : .openMetrics
    }

    /// The page of all families, without families that have no value.
    package func page(of families: [MetricFamily]) -> [UInt8] {
        var page: [UInt8] = []
        for family in families where !family.samples.isEmpty { write(family, to: &page) }
        if self == .openMetrics { page.append(contentsOf: "# EOF\n".utf8) }
        return page
    }

    private func write(_ family: MetricFamily, to page: inout [UInt8]) {
        let metric = family.metric
        // The older format names the series, and has no type for information.
        let name = self == .openMetrics || metric.kind == .histogram ? metric.name : metric.seriesNames[0]
        let kind = self == .prometheusText && metric.kind == .info ? .gauge : metric.kind
        page.append(contentsOf: "# HELP \(name) \(Self.escaped(metric.help, quotes: self == .openMetrics))\n".utf8)
        page.append(contentsOf: "# TYPE \(name) \(kind.rawValue)\n".utf8)
        if self == .openMetrics, metric.name.hasSuffix("_seconds") || metric.name.hasSuffix("_bytes") {
            page.append(contentsOf: "# UNIT \(name) \(metric.name.hasSuffix("_bytes") ? "bytes" : "seconds")\n".utf8)
        }
        for sample in family.samples { write(sample, of: metric, to: &page) }
    }

    private func write(_ sample: MetricFamily.Sample, of metric: Metric, to page: inout [UInt8]) {
        let labels = zip(metric.labels, sample.labels).map { "\($0)=\"\(Self.escaped($1, quotes: true))\"" }
        func line(_ name: String, _ labels: [String], _ value: String) {
            page.append(contentsOf: name.utf8)
            if !labels.isEmpty { page.append(contentsOf: "{\(labels.joined(separator: ","))}".utf8) }
            page.append(contentsOf: " \(value)\n".utf8)
        }
        switch sample.value {
        case .integer(let value): line(metric.seriesNames[0], labels, "\(value)")
        case .number(let value): line(metric.seriesNames[0], labels, Self.text(value))
        case .histogram(let histogram):
            var below = 0
            for (bound, count) in zip(histogram.bounds, histogram.counts) {
                below += count
                line("\(metric.name)_bucket", labels + ["le=\"\(Self.text(Double(bound) / 1e9))\""], "\(below)")
            }
            line("\(metric.name)_bucket", labels + ["le=\"+Inf\""], "\(histogram.count)")
            line("\(metric.name)_sum", labels, Self.text(Double(histogram.sumNanoseconds) / 1e9))
            line("\(metric.name)_count", labels, "\(histogram.count)")
        }
    }

    /// Swift writes `1e+16` and `inf`. The formats accept the first, and write the second as `+Inf`.
    private static func text(_ value: Double) -> String {
        if value.isNaN { return "NaN" }
        guard value.isFinite else { return value > 0 ? "+Inf" : "-Inf" }
        return "\(value)"
    }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        guard text.utf8.contains(where: { $0 == 0x5C || $0 == 0x0A || $0 == 0x22 }) else { return text }
        var result = ""
        for character in text.unicodeScalars {
            switch character {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.unicodeScalars.append(character)
            }
        }
        return result
    }
}
