extension AttributeType {
    /// What the type is called in a sentence.
    package var title: String {
        switch self {
        case .undefined: "undefined"
        case .integer16: "16-bit integer"
        case .integer32: "32-bit integer"
        case .integer64: "64-bit integer"
        case .decimal: "decimal number"
        case .double: "floating-point number"
        case .float: "32-bit floating-point number"
        case .string: "text"
        case .boolean: "truth value"
        case .date: "date"
        case .binary: "binary value"
        case .uuid: "UUID"
        case .uri: "URI"
        case .transformable: "transformable value"
        case .objectID: "object identifier"
        case .composite: "composite"
        }
    }
}
