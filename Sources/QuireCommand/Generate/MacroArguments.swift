import Quire

/// The arguments of the macros of QuireMacros, in parentheses; empty if there are none.
enum MacroArguments {
    static func entity(_ one: ClassPlan.Class) -> String {
        var arguments: [String] = []
        if one.name != one.entity.name {
            arguments.append("name: \(SwiftLiteral.text(one.entity.name))")
        }
        if one.entity.isAbstract { arguments.append("abstract: true") }
        add("renamingIdentifier", one.entity.renamingIdentifier, to: &arguments)
        if !one.unique.isEmpty { arguments.append("unique: \(lists(one.unique))") }
        if !one.indexes.isEmpty { arguments.append("indexes: \(lists(one.indexes))") }
        return inParentheses(arguments)
    }

    static func attribute(_ attribute: ClassPlan.Attribute) -> String {
        let description = attribute.description
        var arguments = options([
            ("unique", attribute.isUnique), ("transient", description.isTransient),
            ("externalStorage", description.allowsExternalBinaryDataStorage),
            ("indexed", attribute.isIndexed),
            ("allowsCloudEncryption", description.allowsCloudEncryption),
            (
                "preservesValueInHistoryOnDeletion",
                description.preservesValueInHistoryOnDeletion
            ),
        ])
        if attribute.name != description.name {
            arguments.append("key: \(SwiftLiteral.text(description.name))")
        }
        add("renamingIdentifier", description.renamingIdentifier, to: &arguments)
        let type = description.type
        add(code: "default", AttributeCode.literal(description.defaultValue, type), to: &arguments)
        if description.type == .string {
            if let range = lengths(description) { arguments.append("length: \(range)") }
        } else {
            add(code: "minimum", AttributeCode.literal(description.minimum, type), to: &arguments)
            add(code: "maximum", AttributeCode.literal(description.maximum, type), to: &arguments)
        }
        add("regex", description.regularExpression, to: &arguments)
        return inParentheses(arguments)
    }

    static func relationship(_ relationship: ClassPlan.Relationship) -> String {
        let description = relationship.description
        var arguments = options([
            ("required", !description.isOptional), ("transient", description.isTransient),
            ("indexed", description.isIndexed && !description.isToMany),
        ])
        if let inverse = relationship.inverse {
            // In a key path the macro would take backticks for a part of the name.
            let isKeyPath =
                relationship.namesInverseByKeyPath && SwiftNames.code(inverse) == inverse
            arguments.append(
                "inverse: "
                    + (isKeyPath
                        ? "\\\(relationship.destination).\(inverse)" : SwiftLiteral.text(inverse)))
        }
        if description.deleteRule != .nullify {
            arguments.append("deleteRule: .\(description.deleteRule.title)")
        }
        if description.isToMany {
            if description.minimumCount > 0 {
                arguments.append("minimumCount: \(description.minimumCount)")
            }
            if description.maximumCount > 0 {
                arguments.append("maximumCount: \(description.maximumCount)")
            }
        }
        if relationship.name != description.name {
            arguments.append("key: \(SwiftLiteral.text(description.name))")
        }
        add("renamingIdentifier", description.renamingIdentifier, to: &arguments)
        return inParentheses(arguments)
    }

    // MARK: - Parts

    private static func options(_ options: [(name: String, isSet: Bool)]) -> [String] {
        options.filter(\.isSet).map { "." + $0.name }
    }

    private static func add(_ label: String, _ text: String?, to arguments: inout [String]) {
        add(code: label, text.map(SwiftLiteral.text), to: &arguments)
    }

    private static func add(code label: String, _ code: String?, to arguments: inout [String]) {
        if let code { arguments.append("\(label): \(code)") }
    }

    /// The range of a text's lengths; `nil` if there is none, or none that is possible.
    private static func lengths(_ attribute: AttributeDescription) -> String? {
        switch (attribute.minimum, attribute.maximum) {
        case (.integer(let least), .integer(let most)) where 0 <= least && least <= most:
            "\(least)...\(most)"
        case (.integer(let least), .null) where least >= 0: "\(least)..."
        case (.null, .integer(let most)) where most >= 0: "...\(most)"
        default: nil
        }
    }

    private static func lists(_ lists: [[String]]) -> String {
        let texts = lists.map { list in
            "[" + list.map(SwiftLiteral.text).joined(separator: ", ") + "]"
        }
        return "[" + texts.joined(separator: ", ") + "]"
    }

    private static func inParentheses(_ arguments: [String]) -> String {
        arguments.isEmpty ? "" : "(" + arguments.joined(separator: ", ") + ")"
    }
}
