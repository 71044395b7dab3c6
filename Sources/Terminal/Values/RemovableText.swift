/// A text, or an empty one, which removes a value.
package struct RemovableText: ArgumentValue, Equatable, Sendable {
    package let text: String

    package static var placeholder: String { String.placeholder }
    package var shown: String { text }

    package static func parse(_ text: String) -> RemovableText {
        RemovableText(text: text)
    }
}
