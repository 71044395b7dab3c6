/// The values for a statement's parameters, each with its name in the statement: `["queue": .queue(name)]`.
///
/// The order is free. A list without names is for statements that number their parameters themselves (`$1` and so on);
/// only tests have such statements.
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

    /// The pairs of both, for parameters that several statements share.
    package static func + (some: Parameters, others: Parameters) -> Parameters {
        Parameters(some.pairs + others.pairs)
    }
}
