extension Int {
    /// A number and its noun, whose plural takes an s: `1 device`, `12 devices`.
    package func counted(_ noun: String) -> String { counted(noun, noun + "s") }

    /// A number and its noun with an irregular plural.
    package func counted(_ one: String, _ several: String) -> String { "\(self) \(self == 1 ? one : several)" }
}
