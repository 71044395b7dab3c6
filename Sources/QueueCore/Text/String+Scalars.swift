extension String {
    /// Returns the text with each occurrence of one Unicode scalar replaced, whatever follows it.
    ///
    /// For quoting. `replacing(_:with:)` compares characters: an apostrophe and a combining accent are one character,
    /// which is not an apostrophe, but a shell or PostgreSQL sees the apostrophe.
    package func replacing(scalar: Unicode.Scalar, with replacement: String) -> String {
        var scalars = UnicodeScalarView()
        for each in unicodeScalars {
            if each == scalar { scalars += replacement.unicodeScalars } else { scalars.append(each) }
        }
        return String(scalars)
    }
}
