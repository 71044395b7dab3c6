extension Int {
    /// `1 device`, `12 devices`: a number and what it counts, which takes an s.
    package func counted(_ noun: String) -> String { counted(noun, noun + "s") }

    /// The same with a noun that does not.
    package func counted(_ one: String, _ several: String) -> String { "\(self) \(self == 1 ? one : several)" }
}
