import Foundation
import Quire

/// The context of templates, which `TEMPLATES.md` documents. Additions here belong there too.
struct TemplateContext {
    let plan: ClassPlan
    /// Whether the classes are public.
    let isPublic: Bool

    /// For a template that is rendered once in a file.
    ///
    /// - Parameters:
    ///   - classes: The classes in the file.
    ///   - hasStructures: Whether the structures of composites are in the file.
    func file(of classes: [ClassPlan.Class], hasStructures: Bool = false) -> [String: Any] {
        [
            "access": isPublic ? "public " : "",
            "model": modelContext,
            "entities": classes.map(entity),
            "composites": plan.structures.map(structure),
            "needsFoundation": classes.contains(where: needsFoundation)
                || hasStructures && plan.structures.contains(where: needsFoundation),
        ]
    }

    /// For a template that is rendered for an entity.
    func file(of one: ClassPlan.Class) -> [String: Any] {
        var context = file(of: [one])
        context["entity"] = entity(one)
        return context
    }

    private var modelContext: [String: Any] {
        [
            "name": plan.modelName,
            "swiftName": SwiftNames.upperFirst(SwiftNames.identifier(plan.modelName)),
            "versionIdentifiers": plan.model.versionIdentifiers,
            "classesName": SwiftNames.unique(
                SwiftNames.lowerFirst(SwiftNames.identifier(plan.modelName)) + "Classes"
            ) { name in plan.classes.contains { $0.name == name } },
        ]
    }

    private func needsFoundation(_ one: ClassPlan.Class) -> Bool {
        one.members.contains { member in
            if case .attribute(let attribute) = member {
                return AttributeCode(attribute.description.type).needsFoundation
            }
            return false
        }
    }

    private func needsFoundation(_ structure: ClassPlan.Structure) -> Bool {
        structure.elements.contains { AttributeCode($0.description.type).needsFoundation }
    }

    private func structure(_ structure: ClassPlan.Structure) -> [String: Any] {
        [
            "name": structure.description.name,
            "structure": structure.name,
            "macroArguments": structure.name == structure.description.name
                ? "" : "(name: \(SwiftLiteral.text(structure.description.name)))",
            "elements": structure.elements.map { element in
                [
                    "name": element.description.name,
                    "swiftName": SwiftNames.code(element.description.name),
                    "type": (element.structure ?? AttributeCode(element.description.type).type)
                        + "?",
                ]
            },
        ]
    }

    // MARK: - Entities

    private func entity(_ one: ClassPlan.Class) -> [String: Any] {
        let entity = one.entity
        var context: [String: Any] = [
            "name": entity.name,
            "nameLiteral": SwiftLiteral.text(entity.name),
            "class": one.name,
            "superclass": one.superclass ?? "ManagedObject",
            "isAbstract": entity.isAbstract,
            "isFinal": !one.hasSubclasses,
            "final": one.hasSubclasses ? "" : "final ",
            "uniquenessConstraints": entity.uniquenessConstraints,
            "userInfo": entity.userInfo.mapValues(\.object),
            "notes": one.notes.map(SwiftLiteral.comment),
            "undeclared": one.undeclared.map(SwiftLiteral.comment),
            "macroArguments": MacroArguments.entity(one),
            "properties": one.members.map { member($0, of: one) },
        ]
        context["superentity"] = entity.superentityName
        context["renamingIdentifier"] = entity.renamingIdentifier
        context["versionHashModifier"] = entity.versionHashModifier
        return context
    }

    private func member(_ member: ClassPlan.Member, of one: ClassPlan.Class) -> [String: Any] {
        switch member {
        case .attribute(let attribute): self.attribute(attribute)
        case .relationship(let relationship): self.relationship(relationship)
        case .fetched(let fetched): self.fetched(fetched)
        case .skipped(let name, let reason):
            [
                "kind": "skipped", "name": SwiftLiteral.comment(name),
                "reason": SwiftLiteral.comment(reason),
            ]
        }
    }

    // MARK: - Attributes

    private func attribute(_ attribute: ClassPlan.Attribute) -> [String: Any] {
        let description = attribute.description
        let code = AttributeCode(description.type)
        let key = SwiftLiteral.text(description.name)
        let standIn = AttributeCode.literal(description.defaultValue, description.type)
        let missing = standIn ?? code.missing
        let isOptional = (description.isOptional || missing == nil) && !code.includesMissing
        var context: [String: Any] = [
            "kind": "attribute",
            "name": description.name,
            "nameLiteral": key,
            "swiftName": SwiftNames.code(attribute.name),
            "isRenamed": attribute.name != description.name,
            "attributeType": description.type.textName,
            "valueType": code.type,
            "type": code.type + (isOptional ? "?" : ""),
            "isOptional": description.isOptional,
            "isTransient": description.isTransient,
            "isDerived": description.derivationExpression != nil,
            "isUnique": attribute.isUnique,
            "externalStorage": description.allowsExternalBinaryDataStorage,
            "get": code.get(key, missing: isOptional ? nil : missing),
            "set": "self[\(key)] = newValue",
            "userInfo": description.userInfo.mapValues(\.object),
            "notes": attribute.notes.map(SwiftLiteral.comment),
            "macroArguments": MacroArguments.attribute(attribute),
        ]
        let bounds = description.type == .string ? .integer64 : description.type
        context["default"] = standIn
        context["undeclared"] = attribute.undeclared
        context["structure"] = attribute.structure.map { $0 + (description.isOptional ? "?" : "") }
        context["minimum"] = AttributeCode.literal(description.minimum, bounds)
        context["maximum"] = AttributeCode.literal(description.maximum, bounds)
        context["regularExpression"] = description.regularExpression
        context["derivation"] = description.derivationExpression
        context["transformer"] = description.valueTransformerName
        context["customClass"] = description.customClassName
        context["composite"] = description.compositeName
        context["renamingIdentifier"] = description.renamingIdentifier
        context["versionHashModifier"] = description.versionHashModifier
        return context
    }

    // MARK: - Fetched properties

    private func fetched(_ fetched: ClassPlan.Fetched) -> [String: Any] {
        let description = fetched.description
        let key = SwiftLiteral.text(description.name)
        var context: [String: Any] = [
            "kind": "fetched",
            "name": description.name,
            "nameLiteral": key,
            "swiftName": SwiftNames.code(fetched.name),
            "isRenamed": fetched.name != description.name,
            "type": "[\(fetched.destination)]",
            "get": "try fetchedObjects(\(key)).compactMap { $0 as? \(fetched.destination) }",
            "destination": description.fetchRequest.entityName,
            "destinationClass": fetched.destination,
            "isOptional": description.isOptional,
            "userInfo": description.userInfo.mapValues(\.object),
            "notes": fetched.notes.map(SwiftLiteral.comment),
            "macroArguments": MacroArguments.fetched(fetched),
        ]
        context["undeclared"] = fetched.undeclared
        context["predicate"] = description.fetchRequest.predicateFormat
        return context
    }

    // MARK: - Relationships

    private func relationship(_ relationship: ClassPlan.Relationship) -> [String: Any] {
        let description = relationship.description
        let key = SwiftLiteral.text(description.name)
        let destination = relationship.destination
        let isOrdered = description.isToMany && description.isOrdered
        let type =
            !description.isToMany
            ? "\(destination)?" : isOrdered ? "[\(destination)]" : "Set<\(destination)>"
        var context: [String: Any] = [
            "kind": "relationship",
            "name": description.name,
            "nameLiteral": key,
            "swiftName": SwiftNames.code(relationship.name),
            "isRenamed": relationship.name != description.name,
            "type": type,
            "destination": description.destinationEntityName,
            "destinationClass": destination,
            "isToMany": description.isToMany,
            "isOrdered": isOrdered,
            "isOptional": description.isOptional,
            "isTransient": description.isTransient,
            "deleteRule": description.deleteRule.textName,
            "minimumCount": description.minimumCount,
            "maximumCount": description.maximumCount,
            "userInfo": description.userInfo.mapValues(\.object),
            "notes": relationship.notes.map(SwiftLiteral.comment),
            "macroArguments": MacroArguments.relationship(relationship),
        ]
        context["inverse"] = relationship.inverse == nil ? nil : description.inverseName
        context["inverseKeyPath"] = relationship.inverse.map {
            "\\\(destination).\(SwiftNames.code($0))"
        }
        context["renamingIdentifier"] = description.renamingIdentifier
        context["versionHashModifier"] = description.versionHashModifier
        return context
    }
}

// MARK: - Arguments of macros

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
            ("required", isRequiredNumber(description) && !attribute.isUnique),
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
        add("derived", description.derivationExpression, to: &arguments)
        if description.derivationExpression == nil {
            add(
                code: "default", AttributeCode.literal(description.defaultValue, type),
                to: &arguments)
        }
        if description.type == .string {
            if let range = lengths(description) { arguments.append("length: \(range)") }
        } else {
            add(code: "minimum", AttributeCode.literal(description.minimum, type), to: &arguments)
            add(code: "maximum", AttributeCode.literal(description.maximum, type), to: &arguments)
        }
        add("regex", description.regularExpression, to: &arguments)
        return inParentheses(arguments)
    }

    static func fetched(_ fetched: ClassPlan.Fetched) -> String {
        let request = fetched.description.fetchRequest
        var arguments: [String] = []
        add("predicate", request.predicateFormat, to: &arguments)
        if !request.sortOrderings.isEmpty {
            let orderings = request.sortOrderings.map(ordering).joined(separator: ", ")
            arguments.append("sortOrderings: [\(orderings)]")
        }
        for (label, number) in [
            ("fetchLimit", request.fetchLimit), ("fetchOffset", request.fetchOffset),
            ("fetchBatchSize", request.fetchBatchSize),
        ] where number != 0 {
            arguments.append("\(label): \(number)")
        }
        let keyPaths = request.relationshipKeyPathsForPrefetching
        if !keyPaths.isEmpty {
            arguments.append("relationshipKeyPathsForPrefetching: \(list(keyPaths))")
        }
        if fetched.name != fetched.description.name {
            arguments.append("key: \(SwiftLiteral.text(fetched.description.name))")
        }
        return inParentheses(arguments)
    }

    private static func ordering(_ ordering: SortOrdering) -> String {
        let names: [(QueryComparison.Options, String)] = [
            (.caseInsensitive, "caseInsensitive"), (.diacriticInsensitive, "diacriticInsensitive"),
            (.normalized, "normalized"), (.localized, "localized"),
        ]
        let options = names.filter { ordering.options.contains($0.0) }.map { "." + $0.1 }
        var code = "SortOrdering(\(SwiftLiteral.text(ordering.keyPath))"
        if !ordering.ascending { code += ", ascending: false" }
        if !options.isEmpty { code += ", options: [\(options.joined(separator: ", "))]" }
        return code + ")"
    }

    static func relationship(_ relationship: ClassPlan.Relationship) -> String {
        let description = relationship.description
        var arguments = options([
            ("required", !description.isOptional), ("transient", description.isTransient),
            ("indexed", description.isIndexed && !description.isToMany),
        ])
        if description.deleteRule != .nullify {
            arguments.append("deleteRule: .\(description.deleteRule.textName)")
        }
        if description.isToMany {
            if description.minimumCount > 0 {
                arguments.append("minimumCount: \(description.minimumCount)")
            }
            if description.maximumCount > 0 {
                arguments.append("maximumCount: \(description.maximumCount)")
            }
        }
        if let inverse = relationship.inverse {
            // In a key path the macro would take backticks for a part of the name.
            let isKeyPath =
                relationship.namesInverseByKeyPath && SwiftNames.code(inverse) == inverse
            arguments.append(
                "inverse: "
                    + (isKeyPath
                        ? "\\\(relationship.destination).\(inverse)" : SwiftLiteral.text(inverse)))
        }
        if relationship.name != description.name {
            arguments.append("key: \(SwiftLiteral.text(description.name))")
        }
        add("renamingIdentifier", description.renamingIdentifier, to: &arguments)
        return inParentheses(arguments)
    }

    // MARK: - Parts

    /// Whether a number or Boolean needs a value: without the option it would have the default value 0 or false.
    private static func isRequiredNumber(_ attribute: AttributeDescription) -> Bool {
        guard !attribute.isOptional, attribute.defaultValue.isNull else { return false }
        return switch attribute.type {
        case .integer16, .integer32, .integer64, .decimal, .double, .float, .boolean: true
        default: false
        }
    }

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
        "[" + lists.map(list).joined(separator: ", ") + "]"
    }

    private static func list(_ texts: [String]) -> String {
        "[" + texts.map(SwiftLiteral.text).joined(separator: ", ") + "]"
    }

    private static func inParentheses(_ arguments: [String]) -> String {
        arguments.isEmpty ? "" : "(" + arguments.joined(separator: ", ") + ")"
    }
}
