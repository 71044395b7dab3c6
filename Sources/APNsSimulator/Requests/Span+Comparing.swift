extension Span where Element == UInt8 {
    /// Whether the octets equal those of `other`.
    func isEqual(toArray other: [UInt8]) -> Bool {
        guard count == other.count else { return false }
        for index in indices where self[index] != other[index] { return false }
        return true
    }

    /// Whether the text begins with `prefix` in any case. `prefix` is in lower case, and the text has letters and
    /// digits.
    func hasLowerCasePrefix(_ prefix: [UInt8]) -> Bool {
        guard count >= prefix.count else { return false }
        for index in prefix.indices where self[index] | 0x20 != prefix[index] { return false }
        return true
    }
}
