/// A text that is equal to another if their bytes are; Swift's strings are equal if they are canonically equivalent.
package struct ExactText: Hashable, Sendable {
    /// The text.
    package var text: String

    package init(_ text: String) { self.text = text }

    package static func == (left: ExactText, right: ExactText) -> Bool {
        left.text.utf8.elementsEqual(right.text.utf8)
    }
    // Equal texts have equal strings, so that the string's hash serves.
}
