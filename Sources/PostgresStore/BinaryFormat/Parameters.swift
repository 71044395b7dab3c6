/// The values for a statement's parameters, each with the name that the statement knows it by: `["queue":
/// .queue(name)]`.
///
/// The order is free. A list without names is for statements that number their parameters themselves, `$1` and so on;
/// only tests have such.
package struct Parameters: Sendable, ExpressibleByDictionaryLiteral, ExpressibleByArrayLiteral {
    let pairs: [(name: String, value: Parameter)]

    private init(_ pairs: [(name: String, value: Parameter)]) {
        self.pairs = pairs
    }

    package init(dictionaryLiteral pairs: (String, Parameter)...) {
        self.init(pairs.map { (name: $0, value: $1) })
    }

    package init(arrayLiteral values: Parameter...) {
        self.init(values.enumerated().map { (name: "\($0 + 1)", value: $1) })
    }

    /// Those of both, for what several statements have in common.
    package static func + (some: Parameters, others: Parameters) -> Parameters {
        Parameters(some.pairs + others.pairs)
    }
}
