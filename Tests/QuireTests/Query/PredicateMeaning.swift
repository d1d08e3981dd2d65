import Quire
import Testing

/// A predicate, how it is printed, and the keys of the works in ``QueryLibrary`` that satisfy it.
struct PredicateMeaning: CustomTestStringConvertible {
    let text: String
    let keys: String
    let printed: String
    let variables: [String: AttributeValue]
    let arguments: [(any QueryArgument & Sendable)?]

    init(
        _ text: String, _ keys: String, printed: String? = nil,
        variables: [String: AttributeValue] = [:], _ arguments: (any QueryArgument & Sendable)?...
    ) {
        self.text = text
        self.keys = keys
        self.printed = printed ?? text
        self.variables = variables
        self.arguments = arguments
    }

    var testDescription: String { text }
}
