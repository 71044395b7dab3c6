/// What a metric is called and what it means: the part that is the same in every scrape.
package struct Metric: Hashable, Sendable {
    /// What its values do.
    package enum Kind: String, Sendable {
        /// Grows until the process ends.
        case counter
        /// Goes up and down.
        case gauge
        /// Counts by bucket. Its unit is seconds.
        case histogram
        /// Says something by its labels; its value is 1.
        case info
    }

    /// Its name without the ending of its kind: `pushq_pushes` for the counter `pushq_pushes_total`.
    package let name: String
    package let kind: Kind
    /// What it means, in one sentence.
    package let help: String
    /// The names of its labels, in the order in which their values are given.
    package let labels: [String]

    package init(_ name: String, _ kind: Kind, _ help: String, labels: [String] = []) {
        self.name = name
        self.kind = kind
        self.help = help
        self.labels = labels
    }

    /// The names under which a server of Prometheus finds its values.
    package var seriesNames: [String] {
        switch kind {
        case .counter: ["\(name)_total"]
        case .gauge: [name]
        case .histogram: ["\(name)_bucket", "\(name)_sum", "\(name)_count"]
        case .info: ["\(name)_info"]
        }
    }

    /// The name by which people speak of it: that of its series, or of the histogram.
    package var shownName: String { kind == .histogram ? name : seriesNames[0] }
}

/// A metric with its values at one moment.
package struct MetricFamily: Sendable {
    /// A value, and the labels' values that it is for.
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

    /// One with a single value and no labels.
    package init(_ metric: Metric, _ value: Int) {
        self.metric = metric
        add(value)
    }

    package mutating func add(_ value: Int, _ labels: [String] = []) { add(.integer(value), labels) }
    package mutating func add(_ value: Double, _ labels: [String] = []) { add(.number(value), labels) }
    package mutating func add(_ value: Histogram, _ labels: [String] = []) { add(.histogram(value), labels) }

    private mutating func add(_ value: Sample.Value, _ labels: [String]) {
        precondition(labels.count == metric.labels.count, "\(metric.name) has the labels \(metric.labels)")
        samples.append(Sample(labels: labels, value: value))
    }
}
