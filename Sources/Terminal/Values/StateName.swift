/// The state of a listed thing, as an argument: the word that the list shows, with hyphens for blanks.
package struct StateName<State: RawRepresentable<String> & CaseIterable & Sendable>: ArgumentValue, Sendable {
    package let state: State

    package static var placeholder: String { names.joined(separator: "|") }
    package var shown: String { Self.name(of: state) }

    package static func parse(_ text: String) throws(InvalidValue) -> StateName {
        guard let state = State.allCases.first(where: { name(of: $0) == text }) else {
            throw InvalidValue(Messages.notOne(of: names))
        }
        return StateName(state: state)
    }

    private static var names: [String] { State.allCases.map(name) }
    private static func name(of state: State) -> String { state.rawValue.replacing(" ", with: "-") }
}
