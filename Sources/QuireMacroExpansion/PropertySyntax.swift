internal import SwiftDiagnostics
public import SwiftSyntax
internal import SwiftSyntaxBuilder
public import SwiftSyntaxMacros

/// A property marked `@Attribute`, `@Relationship` or `@FetchedProperty`, taken apart.
struct PropertySyntax {
    enum Kind: String {
        case attribute = "Attribute"
        case relationship = "Relationship"
        case fetched = "FetchedProperty"
    }

    /// The form of a property's type.
    enum Shape {
        /// The type, without optionality.
        case one(TypeSyntax, isOptional: Bool)
        /// The type of the members of a set or an array.
        case many(TypeSyntax, isOrdered: Bool)
    }

    let kind: Kind
    let declaration: VariableDeclSyntax
    let attribute: AttributeSyntax
    let binding: PatternBindingSyntax
    /// The name as it is written, perhaps in backticks.
    let name: TokenSyntax
    let type: TypeSyntax?

    /// Takes a declaration apart; `nil` if it is no property with such an attribute.
    init?(_ declaration: some SyntaxProtocol) {
        guard let variable = declaration.as(VariableDeclSyntax.self),
            let (attribute, kind) = Self.mark(of: variable),
            let binding = variable.bindings.first,
            let pattern = binding.pattern.as(IdentifierPatternSyntax.self)
        else { return nil }
        self.declaration = variable
        self.attribute = attribute
        self.kind = kind
        self.binding = binding
        name = pattern.identifier.trimmed
        type = binding.typeAnnotation?.type
    }

    private static func mark(of variable: VariableDeclSyntax) -> (AttributeSyntax, Kind)? {
        for case .attribute(let attribute) in variable.attributes {
            // `@QuireMacros.Attribute` as well.
            let name = attribute.attributeName.trimmedDescription.split(separator: ".").last
            if let kind = name.flatMap({ Kind(rawValue: String($0)) }) { return (attribute, kind) }
        }
        return nil
    }

    /// The name without backticks.
    var plainName: String {
        name.text.first == "`" ? String(name.text.dropFirst().dropLast()) : name.text
    }

    /// The form of the type.
    var shape: Shape? { type.map { Self.shape(of: $0) } }

    static func shape(of type: TypeSyntax) -> Shape {
        if let optional = type.as(OptionalTypeSyntax.self) {
            return .one(optional.wrappedType.trimmed, isOptional: true)
        }
        if let array = type.as(ArrayTypeSyntax.self) {
            return .many(array.element.trimmed, isOrdered: true)
        }
        if let (name, argument) = genericParts(of: type) {
            switch name {
            case "Optional": return .one(argument, isOptional: true)
            case "Array": return .many(argument, isOrdered: true)
            case "Set": return .many(argument, isOrdered: false)
            default: break
            }
        }
        return .one(type.trimmed, isOptional: false)
    }

    /// `Set` and `Tag` of `Set<Tag>`, or of `Swift.Set<Tag>`.
    private static func genericParts(of type: TypeSyntax) -> (String, TypeSyntax)? {
        let clause: GenericArgumentClauseSyntax?
        let name: String
        if let identifier = type.as(IdentifierTypeSyntax.self) {
            (name, clause) = (identifier.name.text, identifier.genericArgumentClause)
        } else if let member = type.as(MemberTypeSyntax.self) {
            (name, clause) = (member.name.text, member.genericArgumentClause)
        } else {
            return nil
        }
        guard let clause, clause.arguments.count == 1,
            let argument = clause.arguments.first?.argument.as(TypeSyntax.self)
        else { return nil }
        return (name, argument.trimmed)
    }

    // MARK: Arguments of the attribute

    private var arguments: LabeledExprListSyntax? {
        attribute.arguments?.as(LabeledExprListSyntax.self)
    }

    /// The argument with a label; `nil` if there is none or it is `nil`.
    func argument(_ label: String) -> ExprSyntax? { argumentInPlace(label)?.trimmed }

    /// The argument with a label as a part of the source, where a diagnostic can point to.
    func argumentInPlace(_ label: String) -> ExprSyntax? {
        arguments?.first {
            $0.label?.text == label && !$0.expression.is(NilLiteralExprSyntax.self)
        }?
        .expression
    }

    /// The options, as they are written.
    var options: [String] {
        arguments?.prefix { $0.label == nil }.map { $0.expression.trimmedDescription } ?? []
    }

    /// The name of the inverse, as a literal.
    var inverse: String? {
        guard let argument = argument("inverse") else { return nil }
        guard let keyPath = argument.as(KeyPathExprSyntax.self) else {
            return argument.description
        }
        let names = keyPath.components.compactMap { component -> String? in
            guard case .property(let property) = component.component else { return nil }
            return property.declName.baseName.text
        }
        // Components before the last name a class within a namespace: “\SchemaV1.Book.author”.
        guard names.count == keyPath.components.count, let name = names.last,
            names.dropLast().allSatisfy({ $0.first?.isUppercase == true })
        else { return nil }
        return "\"\(name)\""
    }
}

// MARK: - Checks

extension PropertySyntax {
    /// Whether accessors can be made; if not, a diagnostic is emitted into the context, if one is given.
    func isSound(in context: (any MacroExpansionContext)? = nil) -> Bool {
        isVariable(context) && hasFreeName(context) && isStored(context) && hasFittingType(context)
            && hasFittingInverse(context)
    }

    private var title: String { "@\(kind.rawValue)" }

    /// Emits a diagnostic into the context, if one is given.
    ///
    /// - Returns: `false`, the outcome of the check.
    private func reject(
        _ node: some SyntaxProtocol, _ id: String, _ message: String, fixIt: String? = nil,
        _ changes: [FixIt.Change] = [], in context: (any MacroExpansionContext)?
    ) -> Bool {
        context?.diagnose(node, id, message, fixIt: fixIt, changes)
        return false
    }

    // MARK: The declaration

    private func isVariable(_ context: (any MacroExpansionContext)?) -> Bool {
        let specifier = declaration.bindingSpecifier
        if specifier.tokenKind == .keyword(.let) {
            return reject(
                specifier, "let", "\(title) needs a “var”: the object's values can change",
                fixIt: "Replace “let” with “var”",
                [.replace(specifier, by: TokenSyntax.keyword(.var))], in: context)
        }
        for modifier in declaration.modifiers
        where [.keyword(.static), .keyword(.class)].contains(modifier.name.tokenKind) {
            return reject(
                modifier, "static", "\(title) is for properties of objects, not of the class",
                fixIt: "Remove “\(modifier.name.text)”",
                [
                    .replace(
                        oldNode: Syntax(declaration.modifiers),
                        newNode: Syntax(
                            declaration.modifiers.filter { $0.id != modifier.id }))
                ],
                in: context)
        }
        return true
    }

    /// The properties that every managed object has.
    private static let namesOfManagedObject: Set<String> = [
        "debugDescription", "description", "entity", "faultingState", "hasChanges",
        "hasPersistentChangedValues", "hashValue", "isDeleted", "isFault", "isInaccessible",
        "isInserted", "isUpdated", "managedObjectContext", "objectID", "queryExpression",
    ]

    private func hasFreeName(_ context: (any MacroExpansionContext)?) -> Bool {
        if !Self.namesOfManagedObject.contains(plainName) { return true }
        return reject(
            binding.pattern, "reservedName",
            "every managed object has a property “\(plainName)”; give this one another name",
            in: context)
    }

    private func isStored(_ context: (any MacroExpansionContext)?) -> Bool {
        if let accessors = binding.accessorBlock {
            var unmarked = declaration
            unmarked.attributes = declaration.attributes.filter {
                $0.as(AttributeSyntax.self)?.id != attribute.id
            }
            return reject(
                accessors, "computed",
                "\(title) generates the accessors; a computed property, or one with observers, cannot be "
                    + "a property of the entity",
                fixIt: "Remove “\(title)”", [.replace(declaration, by: unmarked)], in: context)
        }
        return hasFittingDefault(context)
    }

    /// Whether the initial value can be that of every new object.
    private func hasFittingDefault(_ context: (any MacroExpansionContext)?) -> Bool {
        if let fault = argumentInPlace("default"), argument("derived") != nil {
            return reject(
                fault, "derivedDefault",
                "a derived attribute is computed, so it has no default value", in: context)
        }
        guard let initializer = binding.initializer else { return true }
        let reason: String
        if argument("derived") != nil {
            reason = "a derived attribute is computed, so it has no initial value"
        } else if argument("default") != nil {
            reason =
                "the initial value of an attribute is its default value, which is already specified"
        } else if kind == .fetched {
            reason =
                "a fetched property contains the results of its request, so it has no initial value"
        } else if kind == .relationship {
            if initializer.value.is(NilLiteralExprSyntax.self) { return true }
            if initializer.value.as(ArrayExprSyntax.self)?.elements.isEmpty == true { return true }
            reason =
                "a new object has no related objects; set its relationships in awakeFromInsert()"
        } else if Self.isConstant(initializer.value) {
            return true
        } else {
            reason =
                "the initial value of an attribute is the model's default value, one for all objects, so it must be a "
                + "literal or a named value; set computed values in awakeFromInsert()"
        }
        return reject(
            initializer, "initial", reason, fixIt: "Remove the initial value",
            [removal(of: initializer, typed: type)], in: context)
    }

    /// Whether an expression is a literal or a name, which has the same value whenever it is evaluated.
    private static func isConstant(_ expression: ExprSyntax) -> Bool {
        switch expression.kind {
        case .integerLiteralExpr, .floatLiteralExpr, .booleanLiteralExpr, .nilLiteralExpr: true
        case .stringLiteralExpr:
            expression.as(StringLiteralExprSyntax.self)?.segments
                .allSatisfy { $0.is(StringSegmentSyntax.self) } == true
        case .prefixOperatorExpr:
            expression.as(PrefixOperatorExprSyntax.self).map { isConstant($0.expression) } == true
        case .memberAccessExpr:
            expression.as(MemberAccessExprSyntax.self)
                .map { $0.declName.baseName.text != "now" && ($0.base.map(isConstant) ?? true) }
                == true
        case .declReferenceExpr: true
        default: false
        }
    }

    /// The expression of the default value.
    var defaultValue: ExprSyntax? {
        if let value = argument("default") { return value }
        guard kind == .attribute, let value = binding.initializer?.value,
            !value.is(NilLiteralExprSyntax.self)
        else { return nil }
        return value.trimmed
    }

    /// The accessor that lets a property have an initial value. The model has it, so nothing is initialized.
    var initAccessor: [AccessorDeclSyntax] {
        binding.initializer == nil ? [] : ["init(initialValue) {}"]
    }

    private func removal(
        of initializer: InitializerClauseSyntax, typed type: TypeSyntax?
    ) -> FixIt.Change {
        var without = binding
        without.initializer = nil
        if let type, var annotation = without.typeAnnotation {
            annotation.type = type.trimmed
            without.typeAnnotation = annotation
        }
        return .replace(binding, by: without)
    }

    // MARK: The type

    private func hasFittingType(_ context: (any MacroExpansionContext)?) -> Bool {
        guard let type, let shape else {
            var typed = binding
            typed.pattern = binding.pattern.trimmed
            typed.typeAnnotation = TypeAnnotationSyntax(
                colon: .colonToken(trailingTrivia: .space),
                type: TypeSyntax(stringLiteral: "<#type#>"))
            return reject(
                binding, "type", "\(title) requires an explicit type: “var \(plainName): …”",
                fixIt: "Add the type", [.replace(binding, by: typed)], in: context)
        }
        if let unwrapped = type.as(ImplicitlyUnwrappedOptionalTypeSyntax.self) {
            return reject(
                type, "unwrapped",
                "\(title) cannot be “\(type.trimmedDescription)”: its value may be missing",
                fixIt: "Replace “!” with “?”",
                [
                    .replace(
                        type, by: OptionalTypeSyntax(wrappedType: unwrapped.wrappedType.trimmed))
                ],
                in: context)
        }
        switch kind {
        case .attribute: return attributeFits(type, shape, context)
        case .relationship: return relationshipFits(type, shape, context)
        case .fetched:
            if case .many(let member, isOrdered: true) = shape {
                return isDestination(member, context)
            }
            return reject(
                type, "fetchedType",
                "a fetched property is an Array of objects, not “\(type.trimmedDescription)”",
                in: context)
        }
    }

    private func attributeFits(
        _ type: TypeSyntax, _ shape: Shape, _ context: (any MacroExpansionContext)?
    ) -> Bool {
        let reason: String
        switch shape {
        case .many:
            reason = "an attribute has one value; use a relationship for several objects"
        case .one(let wrapped, _):
            switch wrapped.kind {
            case .identifierType where wrapped.trimmedDescription == "Any",
                .tupleType, .functionType, .dictionaryType, .someOrAnyType, .compositionType,
                .metatypeType, .arrayType, .optionalType, .attributedType:
                reason = "an attribute has one value of a type that stores support"
            default: return true
            }
        }
        return reject(
            type, "attributeType",
            "“\(type.trimmedDescription)” is not a type for an attribute: \(reason). Use an integer, Double, Float, "
                + "Decimal, String, Bool, Date, Data, UUID, URL, an enumeration over one of these, a structure marked "
                + "@Composite, or a type that conforms to AttributeRepresentable",
            in: context)
    }

    private static let valueTypes: Set<String> = [
        "Int", "Int16", "Int32", "Int64", "Double", "Float", "Decimal", "String", "Bool", "Date",
        "Data", "UUID", "URL",
    ]

    private func relationshipFits(
        _ type: TypeSyntax, _ shape: Shape, _ context: (any MacroExpansionContext)?
    ) -> Bool {
        switch shape {
        case .many(let member, _):
            if member.is(OptionalTypeSyntax.self) {
                return reject(
                    type, "optionalMember",
                    "the members of a to-many relationship are not optional",
                    fixIt: "Remove “?”",
                    [
                        .replace(
                            type,
                            by: TypeSyntax(
                                stringLiteral: type.trimmedDescription.replacing("?", with: "")))
                    ],
                    in: context)
            }
            return isDestination(member, context)
        case .one(let wrapped, isOptional: true):
            if case .many = PropertySyntax.shape(of: wrapped) {
                return reject(
                    type, "optionalMany",
                    "a to-many relationship is not optional; it is empty if it refers to no objects",
                    fixIt: "Remove “?”", [.replace(type, by: wrapped)], in: context)
            }
            return isDestination(wrapped, context)
        case .one(let wrapped, isOptional: false):
            if wrapped.as(IdentifierTypeSyntax.self)?.genericArgumentClause != nil
                || !(wrapped.is(IdentifierTypeSyntax.self) || wrapped.is(MemberTypeSyntax.self))
            {
                return reject(
                    type, "relationshipType",
                    "“\(type.trimmedDescription)” is not a type for a relationship: use an optional class for "
                        + "at most one object, a Set for many, or an Array for ordered objects",
                    in: context)
            }
            guard isDestination(wrapped, context) else { return false }
            return reject(
                type, "toOne",
                "a to-one relationship must be optional, because a new object does not refer to one; use “.required” "
                    + "to require one when it is saved",
                fixIt: "Make it optional",
                [.replace(type, by: OptionalTypeSyntax(wrappedType: wrapped))], in: context)
        }
    }

    private func isDestination(
        _ type: TypeSyntax, _ context: (any MacroExpansionContext)?
    ) -> Bool {
        guard Self.valueTypes.contains(type.trimmedDescription) else { return true }
        let diagnostic = MacroDiagnostic(
            "value", "“\(type.trimmedDescription)” is a value, not an object")
        if kind == .fetched {
            context?.diagnose(type, diagnostic)
            return false
        }
        var mark = attribute
        mark.attributeName = "Attribute"
        context?.diagnose(
            type, diagnostic, fixIt: "Replace “@Relationship” with “@Attribute”",
            [.replace(attribute, by: mark)])
        return false
    }

    // MARK: The inverse

    private func hasFittingInverse(_ context: (any MacroExpansionContext)?) -> Bool {
        guard let argument = argumentInPlace("inverse"), inverse == nil else { return true }
        return reject(
            argument, "inverse",
            "an inverse is one relationship of the other class: “\\Author.books”", in: context)
    }
}

// MARK: - Expansions

/// `@Attribute`: reads and writes by ordinal.
open class AttributeExpansion: AccessorMacro {
    /// The property's accessors.
    public static func expansion(
        of node: AttributeSyntax, providingAccessorsOf declaration: some DeclSyntaxProtocol,
        in context: some MacroExpansionContext
    ) throws -> [AccessorDeclSyntax] {
        guard let property = PropertySyntax.checked(declaration, node, context),
            case .one(_, let isOptional)? = property.shape
        else { return [] }
        let ordinal = "PropertyOrdinals.\(property.name.text)"
        let standIn =
            isOptional ? "" : property.defaultValue.map { ", default: \($0)" } ?? ""
        let getter: AccessorDeclSyntax = "get { attribute(\(raw: ordinal)\(raw: standIn)) }"
        if property.argument("derived") != nil { return [getter] }
        return property.initAccessor + [
            getter, "set { setAttribute(\(raw: ordinal), newValue) }",
        ]
    }
}

/// `@Relationship`: reads and writes by ordinal.
open class RelationshipExpansion: AccessorMacro {
    /// The property's accessors.
    public static func expansion(
        of node: AttributeSyntax, providingAccessorsOf declaration: some DeclSyntaxProtocol,
        in context: some MacroExpansionContext
    ) throws -> [AccessorDeclSyntax] {
        guard let property = PropertySyntax.checked(declaration, node, context) else { return [] }
        let ordinal = "PropertyOrdinals.\(property.name.text)"
        return property.initAccessor + [
            "get { related(\(raw: ordinal)) }",
            "set { setRelated(\(raw: ordinal), newValue) }",
        ]
    }
}

/// `@FetchedProperty`: fetches by key.
open class FetchedPropertyExpansion: AccessorMacro {
    /// The property's accessor.
    public static func expansion(
        of node: AttributeSyntax, providingAccessorsOf declaration: some DeclSyntaxProtocol,
        in context: some MacroExpansionContext
    ) throws -> [AccessorDeclSyntax] {
        guard let property = PropertySyntax.checked(declaration, node, context) else { return [] }
        let key = property.argument("key")?.description ?? "\"\(property.plainName)\""
        return ["get { fetchedProperty(\(raw: key)) }"]
    }
}

extension PropertySyntax {
    /// The property that a macro is attached to, if accessors can be made for it; otherwise a diagnostic is emitted.
    fileprivate static func checked(
        _ declaration: some DeclSyntaxProtocol, _ node: AttributeSyntax,
        _ context: some MacroExpansionContext
    ) -> PropertySyntax? {
        guard let property = PropertySyntax(declaration) else {
            context.diagnose(node, "noProperty", "this macro requires a single named property")
            return nil
        }
        let owner = context.lexicalContext.first?.as(ClassDeclSyntax.self)
        guard let owner, EntityExpansion.isMarked(owner) else {
            context.diagnose(
                node, "noEntity",
                "@\(property.kind.rawValue) is for properties of a class marked @Entity"
                    + (owner.map { "; mark \($0.name.text) @Entity" } ?? ""))
            return nil
        }
        return property.isSound(in: context) ? property : nil
    }
}
