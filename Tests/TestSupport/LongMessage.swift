/// The message of a campaign that is nearly as long as one may be: 64 translations of nearly 4 KB.
package enum LongMessage {
    /// The length of the translations.
    package static let translatedBytes = tags.count * translation.utf8.count

    package static let text =
        #"{"default":{"aps":{"alert":"x"}},"languages":{"#
        + tags.map { #""\#($0)":\#(translation)"# }.joined(separator: ",") + "}}"

    private static let tags: [String] = "abcdefgh".flatMap { first in "abcdefgh".map { "\(first)\($0)" } }
    private static let translation = #"{"aps":{"alert":"\#(String(repeating: "x", count: 4000))"}}"#
}
