extension Int {
    /// `1 device`, `12 devices`: a number and what it counts, which takes an s.
    package func counted(_ noun: String) -> String { "\(self) \(noun)\(self == 1 ? "" : "s")" }
}
