/// The name and the meaning of a metric, which are the same in every scrape.
package struct Metric: Hashable, Sendable {
    /// How its values behave.
    package enum Kind: String, Sendable {
        /// Grows until the process ends.
        case counter
        /// Goes up and down.
        case gauge
        /// Counts by bucket. Its unit is seconds.
        case histogram
        /// Its labels carry the information; its value is 1.
        case info
    }

    /// The name without the suffix of its kind: `pushq_pushes` for the counter `pushq_pushes_total`.
    package let name: String
    package let kind: Kind
    /// The meaning in one sentence.
    package let help: String
    /// The names of its labels, in the order of their values.
    package let labels: [String]

    package init(_ name: String, _ kind: Kind, _ help: String, labels: [String] = []) {
        self.name = name
        self.kind = kind
        self.help = help
        self.labels = labels
    }

    /// The names under which a Prometheus server stores its values.
    package var seriesNames: [String] {
        switch kind {
        case .counter: ["\(name)_total"]
        case .gauge: [name]
        case .histogram: ["\(name)_bucket", "\(name)_sum", "\(name)_count"]
        case .info: ["\(name)_info"]
        }
    }

    /// The name as documentation shows it: the name of its series, or of the histogram.
    package var shownName: String { kind == .histogram ? name : seriesNames[0] }
}

/// A metric with its values at one moment.
package struct MetricFamily: Sendable {
    /// A value, with the values of its labels.
    package struct Sample: Sendable {
        package enum Value: Sendable {
            case integer(Int)
            case number(Double)
            case histogram(Histogram)
        }

        package let labels: [String]
        package let value: Value
    }

    package let metric: Metric
    package private(set) var samples: [Sample] = []

    package init(_ metric: Metric) {
        self.metric = metric
    }

    /// Creates a family with a single value and no labels.
    package init(_ metric: Metric, _ value: Int) {
        self.metric = metric
        add(value)
    }

    package mutating func add(_ value: Int, _ labels: [String] = []) { add(.integer(value), labels) }
    package mutating func add(_ value: Double, _ labels: [String] = []) { add(.number(value), labels) }
    package mutating func add(_ value: Histogram, _ labels: [String] = []) { add(.histogram(value), labels) }

    private mutating func add(_ value: Sample.Value, _ labels: [String]) {
        guard labels.count == metric.labels.count else { fatalError("\(metric.name) has the labels \(metric.labels)") }
        samples.append(Sample(labels: labels, value: value))
    }
}
